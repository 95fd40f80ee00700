"""PathWalk: follows causes back from an end, and yields the work on the way as pieces."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.events import OpEvent, PathEvents, SyncEvent, Work
from kb_dataexec.analysis.critical_path.labels import PathLabels
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.transfer_parts import MEMORY_BYTES, TransferParts
from kb_dataexec.arrays.dtypes import Array

_CHUNK: Final = 1 << 16
"""Events of a path at a time. Source: assumed: their arrays stay in a cache of some MiB."""


class Pieces(NamedTuple):
    """Segments, in any order: columns with one element for each, as in `PathColumns`.

    `path` is the number of the path. `label` is the number of line, block and work (`PathLabels`), and `edge` is the
    number of the edge (`VIA`). `op` is the number of the op in the rows of the path, and `pe` is the string number of
    the PE, both -1 for none.
    """

    path: Array

    start_ps: Array
    end_ps: Array
    label: Array
    edge: Array
    op: Array
    pe: Array


class _Steps(NamedTuple):
    """Steps between neighbouring events of a path that take time: columns of `Pieces`, the work, the command, and the
    call that waits or signals."""

    path: Array
    start_ps: Array
    end_ps: Array
    work: Array
    edge: Array
    op: Array
    command: Array
    sync: Array
    pe: Array

    def some(self, which: Array) -> _Steps:
        return _Steps(*(column[which] for column in self))


class PathWalk:
    """Follows paths through *events*. *labels* has the labels of their pieces."""

    def __init__(self, rows: PathRows, events: PathEvents, transfers: TransferParts, labels: PathLabels) -> None:
        self._ops, self._events, self._transfers, self._labels = rows.ops, events, transfers, labels
        self._syncs = rows.syncs
        self._pe_of_command, self._kernels = np.append(rows.commands.pe, -1), rows.kernels
        self._waited = transfers.op[transfers.behind >= 0]
        self._synced = np.flatnonzero(rows.syncs.waited)
        self._causes = self._within_launches(rows, events.cause).data

    def _within_launches(self, rows: PathRows, whole: Array) -> Array:
        """The causes *whole*, without requests that waited for a memory which served another launch.

        Launches of streams run at the same time, and a path stays in its launch.
        """
        if not len(rows.optional("calls")):
            return whole
        transfers, launch = self._transfers, np.append(rows.kernels["launch"], -1)[rows.kernel_of]
        waited = np.flatnonzero(transfers.behind >= 0)
        op, behind = transfers.op[waited], transfers.behind[waited]
        other = op[launch[rows.ops.command[op]] != launch[rows.ops.command[behind]]]
        whole = whole.copy()
        numbers = self._events.numbers
        whole[numbers.op(OpEvent.END, other)] = numbers.op(OpEvent.START, other)
        return whole

    @cached_property
    def _own_causes(self) -> memoryview:
        """The causes within a PE: a request that waited for a memory is not split, nor is a wait for another PE."""
        numbers, whole = self._events.numbers, self._events.cause
        if not self.always_stays:
            whole = whole.copy()
            whole[numbers.op(OpEvent.END, self._waited)] = numbers.op(OpEvent.START, self._waited)
            whole[numbers.sync(SyncEvent.WENT_ON, self._synced)] = numbers.sync(SyncEvent.ISSUED, self._synced)
        return whole.data

    @property
    def always_stays(self) -> bool:
        """Whether every path stays on its PE, because no request waited for a memory, and no kernel for another PE."""
        return not len(self._waited) and not len(self._synced)

    def causes(self, stays: bool) -> memoryview:
        """The cause of each event, -1 for none; with *stays*, the cause within its PE."""
        return self._own_causes if stays else self._causes

    def back_from(self, event: int, start: int, stays: bool) -> Array:
        """Returns the events from *event* back to the start of a program, the latest first.

        With *stays*, the path stays on the PE: a service is not split, and a wait for a memory is part of it; a wait
        for another PE is a step. If events
        at one time wait for each other in a circle, *start* follows the first of them.
        """
        causes, found = self.causes(stays), array("q")
        append = found.append
        for _ in range(len(causes) + 1):
            append(event)
            event = causes[event]
            if event < 0:
                return np.frombuffer(found, np.int64)
        return np.array([*_until_it_repeats(found), start], np.int64)

    def goes_elsewhere(self, back: Array) -> bool:
        """Whether the path *back* follows a request that waited for a memory, or a wait for another PE.

        The path on the PE differs then.
        """
        numbers = self._events.numbers
        waits = numbers.op(OpEvent.END, self._waited), numbers.sync(SyncEvent.WENT_ON, self._synced)
        return bool(np.isin(back, np.concatenate(waits)).any())

    def pieces(self, *paths: Array) -> Iterator[Pieces]:
        """Yields the segments of *paths*, each from its end back, some ten thousand at a time.

        DMA services are split into their parts.
        """
        back = np.concatenate(paths)
        path = np.repeat(np.arange(len(paths)), [len(each) for each in paths])
        edge = 0
        for low in range(0, len(back) - 1, _CHUNK):
            chunk = slice(low, low + _CHUNK + 1)
            steps, edge = self._steps(back[chunk], path[chunk], edge)
            served = steps.work == Work.SERVICE
            transfer = np.full(len(served), -1)
            transfer[served] = self._transfers.of_op[steps.op[served]]
            pieces = [self._whole(steps.some(np.flatnonzero(transfer < 0)))]
            parted = np.flatnonzero(transfer >= 0)
            pieces += self._parted(steps.some(parted), transfer[parted])
            yield Pieces(*map(np.concatenate, zip(*pieces, strict=True)))

    def _steps(self, back: Array, path: Array, said: int) -> tuple[_Steps, int]:
        """Returns the steps of *back* that take time, and the last edge. *path* has the path of each event.

        An event without an edge has the edge of the event behind it on its path; *said* is the edge behind the first
        event.
        """
        events, numbers = self._events, self._events.numbers
        time, edge = events.time[back], events.edge[back[:-1]]
        follows = path[1:] == path[:-1]
        says = edge > 0
        says[1:] |= ~follows[:-1]
        last = np.maximum.accumulate(np.where(says, np.arange(len(edge)), -1))
        edge = np.where(last >= 0, edge[last], said)
        kept = np.flatnonzero((time[:-1] > time[1:]) & follows)
        begin, end = back[1:][kept], back[:-1][kept]
        is_caused = events.cause[end] == begin
        is_whole = ~is_caused & (end // max(numbers.n_ops, 1) == OpEvent.END)
        sync = numbers.sync_of(end)
        work = np.where(is_caused, events.work[end], np.where(is_whole, Work.SERVICE, Work.UNKNOWN))
        work[~is_caused & (sync >= 0)] = Work.WAIT
        by_op = (work == Work.SERVICE) | (work == Work.MEMORY)
        by_command = (work == Work.DECODE) | (work == Work.ISSUE)
        op = np.where(by_op, np.where(is_whole, end, begin) % max(numbers.n_ops, 1), -1)
        command = np.full(len(op), -1)
        command[by_op] = self._ops.command[op[by_op]]
        command[by_command] = numbers.command_of(begin[by_command])
        pe = self._pe_of_command[command]
        begins = work == Work.PROGRAM
        pe[begins] = self._kernels["pe"][numbers.kernel_of(begin[begins])]
        own = np.flatnonzero(work >= Work.CALL)
        pe[own] = np.where(work[own] == Work.CREDIT, self._syncs.other[sync[own]], self._syncs.pe[sync[own]])
        times = time[1:][kept], time[:-1][kept]
        steps = _Steps(path[1:][kept], *times, work, edge[kept], op, command, sync, pe)
        return steps, int(edge[-1]) if follows[-1] else 0

    def _whole(self, steps: _Steps) -> Pieces:
        """Makes one piece of each step."""
        labels, work = self._labels, steps.work
        label = labels.of_unknown(len(work))
        for kind, of_commands in ((Work.DECODE, labels.of_decode), (Work.ISSUE, labels.of_issue)):
            label[work == kind] = of_commands(steps.command[work == kind])
        own = np.flatnonzero(work >= Work.CALL)
        label[own] = labels.of_syncs(steps.sync[own], work[own])
        label[work == Work.PROGRAM] = labels.of_programs(int((work == Work.PROGRAM).sum()))
        served, held = work == Work.SERVICE, work == Work.MEMORY
        label[served] = labels.of_services(steps.op[served])
        transfer = self._transfers.of_op[steps.op[held]]
        label[held] = labels.of_parts(transfer, MEMORY_BYTES, steps.command[held])
        return Pieces(steps.path, steps.start_ps, steps.end_ps, label, steps.edge, steps.op, steps.pe)

    def _parted(self, steps: _Steps, transfer: Array) -> Iterator[Pieces]:
        """Yields the pieces of the services of *transfer*, part by part."""
        for cut in self._transfers.cut(transfer, steps.start_ps, steps.end_ps):
            mine = steps.some(cut.which)
            label = self._labels.of_parts(transfer[cut.which], cut.part, mine.command)
            yield Pieces(mine.path, cut.start_ps, cut.end_ps, label, mine.edge, mine.op, mine.pe)


def _until_it_repeats(events: Sequence[int]) -> list[int]:
    """Returns *events*, which end in a circle, up to the end of its first round."""
    return list(dict.fromkeys(events))
