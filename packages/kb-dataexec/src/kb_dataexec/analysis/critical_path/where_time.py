"""where, path and paths: the critical paths of the launches of a log, and the rows that they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.analysis.attribution import LaunchWhere, PathColumns, PeWhere, Where, WhereRow
from kb_dataexec.analysis.critical_path.busy import work_beside, work_of_launches
from kb_dataexec.analysis.critical_path.causes import events_of
from kb_dataexec.analysis.critical_path.events import VIA, KernelEvent, OpEvent
from kb_dataexec.analysis.critical_path.labels import UNKNOWN, PathLabels, PathTexts
from kb_dataexec.analysis.critical_path.launch_way import LaunchWay
from kb_dataexec.analysis.critical_path.launches import hops_of, last_program, last_programs, launch_where, pe_views
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.segments import EdgedHop, PathSums, TimedSegments
from kb_dataexec.analysis.critical_path.transfer_parts import TransferParts
from kb_dataexec.analysis.critical_path.walk import PathWalk
from kb_dataexec.analysis.transfers import LazyServices
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError


def where(log: OpLog) -> Where:
    """Returns the attribution of the time of each launch of *log*.

    A log without the table `kernels` has no launches.
    """
    if "kernels" in log.missing:
        return Where(launches=[], missing=[name for name in log.missing if name != "dependencies"])
    paths = _Paths(log)
    launches = [paths.launch_where(launch) for launch in paths.launches]
    unexplained_ps = sum(row.ps for launch in launches for row in launch.rows if row.block == UNKNOWN)
    return Where(launches=launches, missing=paths.rows.missing, unexplained_ps=unexplained_ps)


def path(log: OpLog, launch: int) -> PathColumns:
    """Returns the critical path of launch number *launch*, from the host's call to its answer.

    Raises LogError if *log* has no table `kernels`, or no such launch in it.
    """
    paths = _Paths(log)
    if launch not in paths.launches:
        known = ", ".join(map(str, paths.launches)) or "none"
        raise LogError("op log", f"launch {launch}", f"one of the launches of the log ({known})")
    return paths.launch_path(launch)


def paths(log: OpLog) -> Iterator[PathColumns]:
    """Yields the critical path of each launch of *log*. Raises LogError if *log* has no table `kernels`."""
    return Causes(log).paths()


Moment: TypeAlias = Literal["ready", "start", "served", "left"]
_MOMENTS: Final[Mapping[Moment, OpEvent]] = {
    "ready": OpEvent.READY,
    "start": OpEvent.START,
    "served": OpEvent.SERVED,
    "left": OpEvent.LEFT,
}


class Holder(NamedTuple):
    """The wait of an op: its edge, like `via` of a row, and the op that it waited for; -1 for an unknown one."""

    via: str
    op_id: int


class DispatchWaits(NamedTuple):
    """The waits of each tile before its first op, in picoseconds: for a buffer in TCM, and for earlier fetches."""

    op_id: Array
    tile_buffer_ps: Array
    fetch_order_ps: Array


class Causes:
    """The causes of all events of *log*, found once for any number of queries.

    A caller that has the services of *log* passes them as *services*. Raises LogError if *log* has no table `kernels`.
    """

    def __init__(self, log: OpLog, services: LazyServices | None = None) -> None:
        self._paths = _Paths(log, services)

    def paths(self) -> Iterator[PathColumns]:
        """Yields the critical path of each launch."""
        return map(self._paths.launch_path, self._paths.launches)

    def before(self, op_id: int) -> PathColumns:
        """Returns the chain of causes from the start of its program to the end of the op *op_id*, in order of time.

        Raises LogError if the log has no such op, or no row of its command or its program.
        """
        return self._paths.path_to(op_id)

    def holders(self, op_ids: Array, moment: Moment) -> list[Holder]:
        """Returns for each of *op_ids* the wait that made its *moment* as late as it was.

        The moments: `ready`, the tile came; `start`, the service started; `served`, the memory began with the request;
        `left`, the tile left for its next block.
        """
        return self._paths.holders(op_ids, _MOMENTS[moment])

    def dispatch_waits(self) -> DispatchWaits:
        """Returns the waits of tiles before they came to their first block."""
        return self._paths.dispatch_waits()


class _Paths:
    """The paths of *log*, each computed when it is needed."""

    def __init__(self, log: OpLog, services: LazyServices | None = None) -> None:
        self.rows = rows = PathRows(log)
        self._transfers = TransferParts(rows, services or LazyServices(log))
        self._events = events_of(rows, self._transfers)
        self._texts = PathTexts(log.strings)
        self._labels = PathLabels(rows, self._transfers, self._texts)
        self._walk = PathWalk(rows, self._events, self._transfers, self._labels)

    @cached_property
    def launches(self) -> list[int]:
        """The numbers of the launches."""
        found: list[int] = np.unique(self.rows.kernels["launch"]).tolist()
        return found

    @cached_property
    def _work(self) -> dict[int, Counter[str]]:
        return work_of_launches(self.rows, self._transfers)

    @cached_property
    def _segments(self) -> TimedSegments:
        return TimedSegments(self.rows, self._labels, self._texts)

    def launch_path(self, launch: int) -> PathColumns:
        """The path of the program that ends last; of several, the first."""
        kernels, way = self._launch(launch)
        back = self._back(last_program(self.rows, kernels))
        return self._segments.columns(launch, list(self._walk.pieces(back)), self._hops(way, back))

    def path_to(self, op_id: int) -> PathColumns:
        """The path from the start of its program to the end of *op_id*."""
        (op,) = self.rows.ops.find(np.array([op_id])).tolist()
        kernel = -1 if op < 0 else int(self.rows.kernel_of[self.rows.ops.command[op]])
        if op < 0 or kernel < 0:
            needs = "an op whose command and program have rows in the log"
            raise LogError("op log", f"op {op_id}", needs, "a program that did not end has no row in the log")
        end, start = self._events.numbers.op(OpEvent.END, np.array(op)), self._kernel_event(KernelEvent.START, kernel)
        back = self._walk.back_from(int(end), start, False)
        launch = int(self.rows.kernels["launch"][kernel])
        return self._segments.columns(launch, list(self._walk.pieces(back)), [])

    def holders(self, op_ids: Array, event: OpEvent) -> list[Holder]:
        """The causes of *event* of each of *op_ids*."""
        numbers, ops = self._events.numbers, self.rows.ops.find(op_ids)
        event_of = numbers.op(event, np.maximum(ops, 0))
        cause, edge = self._events.cause[event_of], self._events.edge[event_of]
        is_op = (ops >= 0) & (cause >= 0) & (cause < len(OpEvent) * numbers.n_ops)
        held_by = np.where(is_op, self.rows.ops.op_id[np.where(is_op, cause % max(numbers.n_ops, 1), 0)], -1)
        return [Holder(VIA[at], found) for at, found in zip(edge.tolist(), held_by.tolist(), strict=True)]

    def dispatch_waits(self) -> DispatchWaits:
        """The rows of the table `dispatches` as waits, since it was the tile's turn."""
        ops, commands, rows = self.rows.ops, self.rows.commands, self.rows.optional("dispatches")
        op = ops.find(rows["op_id"])
        op, rows = op[op >= 0], rows[op >= 0]
        before = ops.tile_before[op]
        turn = np.where(before < 0, commands.t_fed[ops.command[op]], ops.t_ready[before])
        in_order, claimed = rows["t_in_order_ps"], rows["t_claimed_ps"]
        return DispatchWaits(rows["op_id"], np.maximum(claimed - in_order, 0), np.maximum(in_order - turn, 0))

    def launch_where(self, launch: int) -> LaunchWhere:
        """The rows of *launch*: of the whole launch and of each PE."""
        kernels, way = self._launch(launch)
        last = last_program(self.rows, kernels)
        back = self._back(last)
        hops = self._hops(way, back)
        sums, busy = PathSums(self._labels, self._texts, 1), self._work[launch].copy()
        for pieces in self._walk.pieces(back):
            sums.add(pieces)
            busy += work_beside(pieces, self._transfers, self._labels, self._texts)
        sums.add_hops(0, hops)
        for hop, _ in hops:
            busy[hop.block] += hop.end_ps - hop.start_ps
        rows = sums.rows(0)
        pes = self._pes(way, kernels, {} if self._walk.goes_elsewhere(back) else {last: rows})
        return launch_where(self.rows, launch, rows, busy, pes, int(self._events.is_tie[back].sum()))

    def _launch(self, launch: int) -> tuple[Array, LaunchWay]:
        kernels = np.flatnonzero(self.rows.kernels["launch"] == launch)
        return kernels, LaunchWay(self.rows, launch, kernels)

    def _pes(self, way: LaunchWay, kernels: Array, known: dict[int, list[WhereRow]]) -> list[PeWhere]:
        """The view of each PE, back from its program that ends last. *known* has rows of programs that need no walk."""
        last = last_programs(self.rows, kernels)
        own = self._own_rows(way, [kernel for kernel in last if kernel not in known]) | known
        return pe_views(self.rows, way, own, last)

    def _own_rows(self, way: LaunchWay, kernels: Sequence[int]) -> dict[int, list[WhereRow]]:
        """The rows of each of *kernels*, whose paths stay on their PEs."""
        if not kernels:
            return {}
        paths = [self._back(kernel, stays=True) for kernel in kernels]
        sums = PathSums(self._labels, self._texts, len(paths))
        for pieces in self._walk.pieces(*paths):
            sums.add(pieces)
        for number, back in enumerate(paths):
            sums.add_hops(number, self._hops(way, back))
        return {kernel: sums.rows(number) for number, kernel in enumerate(kernels)}

    def _hops(self, way: LaunchWay, back: Array) -> list[EdgedHop]:
        """The hops around the events *back* of programs: from the call, and to the last answer."""
        start_ps, end_ps = (int(self._events.time[back[at]]) for at in (-1, 0))
        return hops_of(way, start_ps, end_ps)

    def _back(self, kernel: int, stays: bool = False) -> Array:
        end, start = (self._kernel_event(event, kernel) for event in (KernelEvent.END, KernelEvent.START))
        return self._walk.back_from(end, start, stays)

    def _kernel_event(self, event: KernelEvent, kernel: int) -> int:
        return int(self._events.numbers.kernel(event, np.array(kernel)))
