"""Hazards: pairs of records that depend on each other, and whose times break the order of their commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.dependencies import Dependencies, DependencyKind
from kb_dataexec.analysis.dma_ops import WRITE
from kb_dataexec.analysis.races.message_order import MessageOrder
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.schedule import Schedule
from kb_messages import SYNC_TABLES, LogError, OpKind

HOST: Final = "host"
"""The component of records that belong to no PE."""


class Hazard(StrEnum):
    """A mistake that hardware could make, named after the access of the second record and then that of the first.

    A race is between two PEs of one launch that no message or signal puts in order. Other hazards are between any
    records.
    """

    READ_TOO_EARLY = "missing wait"
    WRITTEN_OUT_OF_ORDER = "written out of order"
    OVERWRITTEN_TOO_EARLY = "overwritten too early"
    READ_RACE = "read race"
    WRITE_RACE = "write race"
    OVERWRITE_RACE = "overwrite race"

    @property
    def is_race(self) -> bool:
        """Whether the hazard is between two PEs that nothing orders."""
        return self in (Hazard.WRITE_RACE, Hazard.READ_RACE, Hazard.OVERWRITE_RACE)


class Hazards(NamedTuple):
    """Pairs of records in which `second` follows `first` and does not wait for it.

    Records are numbered in command order. `code` is the index of the hazard in `Hazard`. `done_ps` is the earliest time
    at which `second` may begin. It began `early_ps` earlier; this is negative for races whose times happen to be right.
    `pe` has the number of the PE of each record of the log, -1 for the host.
    """

    first: Array
    second: Array
    code: Array
    done_ps: Array
    early_ps: Array
    pe: Array

    def chosen(self, which: Array) -> Hazards:
        """Returns the pairs that *which* marks."""
        columns = [column[which] for column in self[:-1]]
        return Hazards(*columns, self.pe)  # type: ignore[call-arg]  # one for each field


def hazards(schedule: Schedule, found: Dependencies, launches: Sequence[tuple[int, int]] = ()) -> Hazards:
    """Returns the dependencies *found* that are hazards. Explicit dependencies are no hazards.

    A record may touch its bytes at any time from `t_start_ps` to `t_end_ps`, so its followers have to begin after its
    end. A record that reads the result of another command has to begin after the end of that whole command: a kernel
    can wait only for the end of a command, so earlier data would be luck. The receiver of a message may read it from
    the doorbell on. Nothing orders two PEs of one launch, whatever the times, but messages, credits and signals; two
    records that these put in order are compared by time, as records of one PE are. Two atomics are in order too: a
    memory executes one after the other, and an atomic reads the bytes that it overwrites. *launches* are (start, end)
    in picoseconds; without them the whole log is one launch. Raises LogError if launches overlap.
    """
    ops = schedule.ops
    follower = np.repeat(np.arange(len(ops)), np.diff(found.first))
    reads, writes = ((found.kind & kind) > 0 for kind in (DependencyKind.RAW, DependencyKind.WAW))
    command = ops["command_seq"]
    by_command = reads & (command[found.producer] != command[follower])
    done = np.where(by_command, _command_ends(ops)[found.producer], ops["t_end_ps"][found.producer])
    numbers = _pe_names(schedule)
    pe, launch = _pe_numbers(schedule, numbers), _launch_numbers(ops["t_end_ps"], _apart(schedule, launches))
    one, two = pe[found.producer], pe[follower]
    racing = (one != two) & (np.minimum(one, two) >= 0) & (launch[found.producer] == launch[follower])
    if any(len(schedule.log.tables.get(name, ())) for name in SYNC_TABLES):
        sync, at = _Sync(schedule, numbers, pe), np.flatnonzero(racing)
        synced = at[sync.are_ordered(found.producer[at], follower[at])]
        racing[synced] = False
        rung = sync.rung_ps(found.producer[synced], follower[synced])
        done[synced] = np.where(rung >= 0, rung, done[synced])
    early = done - ops["t_start_ps"][follower]
    atomic = _are_atomic(schedule)
    ordered = atomic[found.producer] & atomic[follower]
    at = np.flatnonzero(((early > 0) | racing) & (found.kind != DependencyKind.EXPLICIT) & ~ordered)
    reads, writes, races = reads[at], writes[at], racing[at]
    code = np.select([reads, writes], [0, 1], default=2) + 3 * races  # in the order of Hazard
    code[races & writes] = list(Hazard).index(Hazard.WRITE_RACE)
    return Hazards(found.producer[at], follower[at], code, done[at], early[at], pe)


class _Sync:
    """The order that messages, credits and signals give the records of a log. *pe* has the PE of each record."""

    def __init__(self, schedule: Schedule, numbers: Mapping[str, int], pe: Array) -> None:
        self._tables = schedule.log.tables
        self._pe, self._seq = pe, np.ascontiguousarray(schedule.ops["command_seq"])
        self._order = MessageOrder(self._tables, schedule.log.strings, numbers, self._pe_of_commands)

    def _pe_of_commands(self, command_seq: Array) -> Array:
        at = np.minimum(np.searchsorted(self._seq, command_seq), len(self._seq) - 1)
        return np.where(self._seq[at] == command_seq, self._pe[at], -1)

    def are_ordered(self, first: Array, second: Array) -> Array:
        """Whether each record *first* comes before the record *second* of another PE."""
        return self._order.ordered(self._pe[first], self._seq[first], self._pe[second], self._seq[second])

    def rung_ps(self, first: Array, second: Array) -> Array:
        """When the doorbell rang for each record *first*, if it sent a message to the PE of *second*; else -1."""
        sends = self._tables.get("sends")
        if sends is None or not len(sends):
            return np.full(len(first), -1, np.int64)
        order = np.argsort(sends["command_seq"], kind="stable")
        row = order[np.minimum(np.searchsorted(sends["command_seq"][order], self._seq[first]), len(order) - 1)]
        receives = self._order.pe_of_text[sends["dst"][row]] == self._pe[second]
        is_message = (sends["command_seq"][row] == self._seq[first]) & receives
        return np.where(is_message, sends["t_rung_ps"][row], -1)


def _are_atomic(schedule: Schedule) -> Array:
    """Whether each record belongs to a command with an atomic, a function that a DMA_WRITE computes in memory."""
    ops, strings = schedule.ops, schedule.log.strings
    name = strings.index(WRITE) if WRITE in strings else -1
    commands = np.unique(ops["command_seq"][(ops["kind"] == OpKind.MATH) & (ops["name"] == name)])
    result: Array = np.isin(ops["command_seq"], commands)
    return result


def _command_ends(ops: Array) -> Array:
    """The end of the command of each record. *ops* are in command order."""
    opens = np.flatnonzero(np.append(True, np.diff(ops["command_seq"]) != 0)[: len(ops)])
    ends = np.maximum.reduceat(ops["t_end_ps"], opens) if len(opens) else opens
    result: Array = np.repeat(ends, np.diff(np.append(opens, len(ops))))
    return result


def _pe_names(schedule: Schedule) -> dict[str, int]:
    """The numbers of all PEs by name. The host has -1."""
    strings = schedule.log.strings
    numbers = {HOST: -1}
    for index in np.unique(schedule.ops["component"]).tolist():
        numbers.setdefault(pe_of(strings[index]), len(numbers))
    return numbers


def _pe_numbers(schedule: Schedule, numbers: Mapping[str, int]) -> Array:
    """The number of the PE of each record, -1 for the host."""
    strings = schedule.log.strings
    used, at = np.unique(schedule.ops["component"], return_inverse=True)
    table = np.array([numbers[pe_of(strings[index])] for index in used.tolist()], np.int64)
    result: Array = table[at]
    return result


def pe_of(component: str) -> str:
    """Returns the PE of a component: the text before the last dot."""
    return component if component == HOST else component.rpartition(".")[0]


def _apart(schedule: Schedule, launches: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Returns *launches*, with launches of streams that overlap as one."""
    if not len(schedule.log.tables.get("calls", ())):
        return launches
    found: list[tuple[int, int]] = []
    for start, end in sorted(launches):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _launch_numbers(end_ps: Array, launches: Sequence[tuple[int, int]]) -> Array:
    """The launch of each record: the first launch that does not end before the record."""
    ordered = sorted(launches)
    for (_, end), (start, later_end) in pairwise(ordered):
        if start < end:
            raise LogError("launches", f"one from {start} to {later_end} ps", f"it to begin at {end} ps or later")
    result: Array = np.searchsorted(np.array([end for _, end in ordered], np.int64), end_ps)
    return result
