"""MessageOrder: the order that messages, credits and signals put between the commands of different PEs.

A launch whose programs send messages has one program on a PE, and launches follow each other. So PEs stand for
programs, and the commands of one PE are in the order of their numbers.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.stream_calls import of_programs
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered_rows
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import SYNC_TABLES, SyncReason

_LAST: Final = np.iinfo(np.int64).max


class _Step(IntEnum):
    """What a PE does: it learns of the commands of other PEs (the first three), or passes on the commands it knows."""

    TAKE = 0
    CREDIT = 1
    WAIT = 2
    SEND = 3
    FREE = 4
    SIGNAL = 5


class _Events(NamedTuple):
    """Steps in an order that agrees with time. `row` is the row of the step's table.

    A step that learns comes before the commands of its PE from number `seq` on. A step that passes on comes after the
    commands before number `seq`, and a send after command `seq` too.
    """

    seq: Array
    t_ps: Array
    pe: Array
    step: Array
    row: Array

    @classmethod
    def joined(cls, parts: list[_Events]) -> _Events:
        """Returns the steps of all *parts*, in order."""
        columns = cls(*map(np.concatenate, zip(*parts, strict=True)))
        order = np.lexsort((columns.step, columns.t_ps, columns.seq))
        return columns.at(order[columns.pe[order] >= 0])

    def at(self, which: Array) -> _Events:
        """Returns the steps that *which* marks or numbers."""
        return _Events(*(column[which] for column in self))


class _Passed(NamedTuple):
    """The knowledge that a message or a signal carries: the clock of its PE, and its own commands before `seq`."""

    clock: Array
    pe: int
    seq: int


class MessageOrder:
    """Finds which commands of different PEs are in order, by the SYNC_TABLES of a log, *tables*.

    *strings* are the texts of the log, and *numbers* the numbers of PEs by name, from 0 on, or -1 for none.
    *pe_of_commands* returns the numbers of the PEs of commands. The clock of a PE has, for each PE, the number below
    which commands of that PE come before the next command of its own. One clock of each PE is kept. Messages and
    signals on their way share a copy of it, until the PE learns something.
    """

    def __init__(
        self,
        tables: Mapping[str, Array],
        strings: Sequence[str],
        numbers: Mapping[str, int],
        pe_of_commands: Callable[[Array], Array],
    ) -> None:
        sends, signals, waits = (tables.get(name, np.empty(0, TABLE_DTYPES[name])) for name in SYNC_TABLES)
        waits = of_programs(waits)
        named = np.concatenate([sends["dst"], signals["src"], signals["dst"], waits["pe"]])
        pe_of_text = self.pe_of_text = _pe_of_text(strings, numbers, np.unique(named).tolist())
        src, dst = pe_of_commands(sends["command_seq"]), pe_of_text[sends["dst"]]
        self._n_pes = int(max(pe_of_text.max(initial=-1), src.max(initial=-1))) + 1
        self._slot_before = _slot_before(sends, src, dst)
        has_next = np.zeros(len(sends), np.bool_)
        has_next[self._slot_before[self._slot_before >= 0]] = True
        taken, credited = (np.flatnonzero(each) for each in (sends["take_seq"] >= 0, self._slot_before >= 0))
        self._until, counter = _signals_before(signals, waits, pe_of_text)
        rung_ps, numbered = signals["t_rung_ps"].tolist(), signals["number"].tolist()
        self._rung = list(zip(rung_ps, numbered, range(len(signals)), strict=True))
        self._counter = counter.tolist()
        awaited = np.flatnonzero(self._until >= 0)
        freed, called = np.flatnonzero(has_next), np.arange(len(signals))
        sent, src_of_signal = np.flatnonzero(sends["take_seq"] >= 0), pe_of_text[signals["src"]]
        self._events = _Events.joined(
            [
                _steps(_Step.TAKE, taken, sends["take_seq"], sends["t_taken_ps"], dst),
                _steps(_Step.CREDIT, credited, sends["command_seq"], sends["t_credit_ps"], src),
                _steps(_Step.WAIT, awaited, waits["next_seq"], waits["to_ps"], pe_of_text[waits["pe"]]),
                _steps(_Step.SEND, sent, sends["command_seq"], np.full(len(sends), _LAST), src),
                _steps(_Step.FREE, freed, sends["free_seq"], sends["t_freed_ps"], dst),
                _steps(_Step.SIGNAL, called, signals["after_seq"], signals["t_call_ps"], src_of_signal),
            ]
        )

    def ordered(self, first_pe: Array, first_seq: Array, second_pe: Array, second_seq: Array) -> Array:
        """Whether each command *first_seq* of *first_pe* comes before command *second_seq* of *second_pe*.

        The second command has the higher number. False for two commands of one PE, which nothing but their numbers
        puts in order.
        """
        found = np.zeros(len(first_pe), np.bool_)
        knows = (first_pe >= 0) & (first_pe < self._n_pes) & (second_pe >= 0)  # a PE without messages has no clock
        asked = np.flatnonzero((first_pe != second_pe) & knows)
        event = self._learnt_last(second_pe[asked], second_seq[asked])
        asked, event = asked[event >= 0], event[event >= 0]
        order = np.argsort(event, kind="stable")
        asked, event = asked[order], event[order]
        opens = np.flatnonzero(np.append(True, np.diff(event) != 0)[: len(event)])
        bounds = [*opens.tolist(), len(event)]
        for number, clock in self._clocks(event[opens]):
            mine = asked[bounds[number] : bounds[number + 1]]
            found[mine] = first_seq[mine] < clock[first_pe[mine]]
        return found

    def _learnt_last(self, pe: Array, seq: Array) -> Array:
        """The last event at which each of *pe* learnt something before its command *seq*; -1 for none."""
        learnt = np.flatnonzero(self._events.step <= _Step.WAIT)
        own_pe, own_seq = self._events.pe[learnt], self._events.seq[learnt]
        _, rank = np.unique(np.concatenate([own_seq, seq]), return_inverse=True)
        most = int(rank.max(initial=0)) + 1
        own, asked = own_pe * most + rank[: len(learnt)], pe * most + rank[len(learnt) :]
        order = np.argsort(own, kind="stable")
        at = np.searchsorted(own[order], asked, side="right") - 1
        event = np.append(learnt[order], -1)[at]
        return np.where((at >= 0) & (np.append(own_pe[order], -1)[at] == pe), event, -1)

    def _clocks(self, wanted: Array) -> Iterator[tuple[int, Array]]:
        """Yields (i, the clock of its PE after event wanted[i]) for the events *wanted*, which ascend."""
        if not len(wanted):
            return
        clocks = list(np.zeros((self._n_pes, self._n_pes), np.int64))
        copies: list[Array | None] = [None] * self._n_pes
        known: dict[tuple[int, int], _Passed] = {}
        signals: dict[int, list[tuple[tuple[int, int, int], _Passed]]] = {}
        targets, at = [*wanted.tolist(), -1], 0
        events = zip(*(column.tolist() for column in self._events), strict=True)
        for number, (seq, _, pe, step, row) in enumerate(events):
            clock = clocks[pe]
            if step >= _Step.SEND:
                copy = copies[pe]
                if copy is None:
                    copy = copies[pe] = clock.copy()
                passed = _Passed(copy, pe, seq + (step == _Step.SEND))
                if step == _Step.SIGNAL:
                    heappush(signals.setdefault(self._counter[row], []), (self._rung[row], passed))
                else:
                    known[step, row] = passed
                continue
            for each in self._learnt(step, row, known, signals):
                np.maximum(clock, each.clock, out=clock)
                clock[each.pe] = max(clock[each.pe], each.seq)
                copies[pe] = None
            if number == targets[at]:
                yield at, clock
                at += 1
                if at == len(wanted):
                    return

    def _learnt(
        self,
        step: int,
        row: int,
        known: dict[tuple[int, int], _Passed],
        signals: dict[int, list[tuple[tuple[int, int, int], _Passed]]],
    ) -> list[_Passed]:
        """What comes with a step, and is forgotten then."""
        if step == _Step.WAIT:
            last = int(self._until[row])
            coming = signals.get(self._counter[last], [])
            learnt = []
            while coming and coming[0][0] <= self._rung[last]:
                learnt.append(heappop(coming)[1])
            return learnt
        key = (_Step.SEND, row) if step == _Step.TAKE else (_Step.FREE, int(self._slot_before[row]))
        return [known.pop(key)] if key in known else []


def _pe_of_text(strings: Sequence[str], numbers: Mapping[str, int], named: Sequence[int]) -> Array:
    """The number of the PE of each of *strings*, -1 for other texts. The texts *named* are PEs, which get numbers."""
    pe_of_text = np.array([numbers.get(text, -1) for text in strings], np.int64)
    new = [index for index in named if strings[index] not in numbers]
    pe_of_text[new] = np.arange(len(new)) + max(numbers.values(), default=-1) + 1
    return pe_of_text


def _steps(step: _Step, rows: Array, seq: Array, t_ps: Array, pe: Array) -> _Events:
    return _Events(seq[rows], t_ps[rows], pe[rows], np.full(len(rows), int(step)), rows)


def _slot_before(sends: Array, src: Array, dst: Array) -> Array:
    """The row of the message that lay in the slot of each message before; -1 for none."""
    before = np.full(len(sends), -1, np.int64)
    if not len(sends):
        return before
    slot = numbered_rows(src, dst, sends["tag"].astype(np.int64), sends["slot"])
    order = np.lexsort((sends["command_seq"], slot))
    earlier, later = order[:-1], order[1:]
    follows = (slot[earlier] == slot[later]) & (sends["free_seq"][earlier] >= 0)
    follows &= sends["free_seq"][earlier] <= sends["command_seq"][later]
    before[later[follows]] = earlier[follows]
    return before


def _signals_before(signals: Array, waits: Array, pe_of_text: Array) -> tuple[Array, Array]:
    """Returns (the row of the signal that ended each wait, -1 for none; the number of the counter of each signal)."""
    counter = numbered_rows(pe_of_text[signals["dst"]], signals["flag"].astype(np.int64))
    if not len(signals):
        return np.full(len(waits), -1, np.int64), counter
    order = np.argsort(signals["number"], kind="stable")
    at = np.minimum(np.searchsorted(signals["number"][order], waits["by_seq"]), len(signals) - 1)
    row = order[at]
    is_known = np.isin(waits["reason"], (SyncReason.SIGNAL, SyncReason.BARRIER)) & (waits["next_seq"] >= 0)
    return np.where(is_known & (signals["number"][row] == waits["by_seq"]), row, -1), counter
