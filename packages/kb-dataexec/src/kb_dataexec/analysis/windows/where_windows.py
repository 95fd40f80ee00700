"""where_in_windows: the attribution of the time of a log that is read chunk by chunk, in bounded memory.

A window of time has all events in it. Their causes follow from the ops that touch the window, and from the tables of
commands and programs. The path before an event of an earlier window is known by its sums.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import numpy as np

from kb_dataexec.analysis.attribution import LaunchWhere, Where
from kb_dataexec.analysis.critical_path.busy import work_of_commands, work_of_ops
from kb_dataexec.analysis.critical_path.causes import events_of
from kb_dataexec.analysis.critical_path.events import CommandEvent, Events, KernelEvent, OpEvent, SyncEvent
from kb_dataexec.analysis.critical_path.labels import UNKNOWN, PathLabels, PathTexts
from kb_dataexec.analysis.critical_path.launch_way import LaunchWay
from kb_dataexec.analysis.critical_path.launches import hops_of, last_program, last_programs, launch_where, pe_views
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.transfer_parts import TransferParts
from kb_dataexec.analysis.critical_path.walk import PathWalk
from kb_dataexec.analysis.dma_ops import DmaOps, DmaRows, FarEnds
from kb_dataexec.analysis.transfers import LazyServices
from kb_dataexec.analysis.windows.chunk_rows import ChunkRows
from kb_dataexec.analysis.windows.log_survey import EarlyTransfers, LogSurvey
from kb_dataexec.analysis.windows.path_forest import NoWindowsError, PathForest, PathNode, PathTotal, total_of
from kb_dataexec.analysis.windows.window_repeats import (
    Again,
    EventWays,
    KeptRows,
    WaysRound,
    WindowRepeats,
    WindowState,
)
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES
from kb_dataexec.log.tables import LeftOut, OpLog
from kb_messages import SyncReason

WINDOW_RECORDS: Final = 1 << 18
"""The least number of records of a window. Source: assumed; 300 MB with the records of the chunk that ends it."""
KEPT_RECORDS: Final = 1 << 22
"""The most records that are kept for their windows. A longer log is read twice. Source: assumed; 600 MB."""
_END: Final = int(np.iinfo(np.int64).max)


class LogChunks(Protocol):
    """A closed log that is read chunk by chunk, such as a LogFolder."""

    def chunks(self) -> Iterator[OpLog]:
        """Yields the chunks of the log from its begin. Each call reads the log again."""

    def some_chunks(self, is_left_out: LeftOut) -> Iterator[OpLog]:
        """Yields the same chunks. A chunk may be missing if *is_left_out* is True for the times of its first and last
        record.
        """


def where_in_windows(
    source: LogChunks,
    look: Callable[[OpLog], object] | None = None,
    followed: Callable[[int], object] | None = None,
    most: int = WINDOW_RECORDS,
    most_kept: int = KEPT_RECORDS,
) -> Where:
    """Returns the attribution of the time of the log of *source*, like `where`, with about *most* records at a time.

    The tables of commands and programs are whole in memory. A log of more than *most_kept* records is read twice.
    *look* is called with each chunk, once. Then *followed* is called with the number of records whose paths are
    followed, 0 at first. Raises NoWindowsError, after *look* had all chunks, if an event follows a dropped one, and
    LogError for an invalid log.
    """
    survey, n_ops = LogSurvey(), 0
    kept: deque[ChunkRows] | None = deque()
    for rows in ChunkRows.each(source.chunks() if look is None else _shown(source.chunks(), look)):
        survey.look(rows)
        n_ops += len(rows.ops)
        if n_ops > most_kept:
            kept = None
        if kept is not None:
            kept.append(rows)

    def chunks_but(is_left_out: LeftOut) -> Iterator[ChunkRows]:
        if kept is None:
            yield from ChunkRows.each(source.some_chunks(is_left_out))
        while kept:
            yield kept.popleft()

    return _where_of_chunks(survey, chunks_but, followed or (lambda _: None), most)


def _shown(chunks: Iterable[OpLog], look: Callable[[OpLog], object]) -> Iterator[OpLog]:
    for chunk in chunks:
        look(chunk)
        yield chunk


def _where_of_chunks(
    survey: LogSurvey,
    chunks_but: Callable[[LeftOut], Iterator[ChunkRows]],
    followed: Callable[[int], object],
    most: int,
) -> Where:
    """The attribution of the log of *survey*. *chunks_but* yields its chunks again, without those to leave out."""
    if "kernels" not in survey.auxiliary:
        raise NoWindowsError("a log without programs")
    if "calls" in survey.auxiliary:
        raise NoWindowsError("launches of streams, which may overlap")
    if not survey.is_in_order:
        raise NoWindowsError("a row of transfers behind its op")
    ends = np.minimum.accumulate(np.array([*survey.ready_ps[1:], _END], np.int64)[::-1])[::-1].tolist()
    windows, repeats = _Windows(survey), WindowRepeats(survey, ends)
    number = n_new = 0
    followed(0)
    for chunk in chunks_but(repeats.is_left_out):
        if number < len(ends) and chunk.first_op != survey.first_op[number]:
            continue  # a chunk that may be left out, and is there all the same
        windows.add(chunk)
        n_new += survey.n_ops[number]
        number += 1
        if n_new >= most and windows.since_ps < ends[number - 1] < _END:
            windows.follow(ends[number - 1])
            number += _left_out(windows, repeats, number)
            followed(sum(survey.n_ops[:number]))
            n_new = 0
    if number < len(ends):
        raise NoWindowsError("other chunks than when it was read first")
    windows.follow(_END)
    return windows.result()


def _left_out(windows: _Windows, repeats: WindowRepeats, number: int) -> int:
    """The number of chunks behind the first *number* that repeat, and that *windows* need not follow."""
    if not repeats.may_begin(number):
        return 0
    again = repeats.again(windows.state(number))
    if again is None or not windows.repeat(again):
        return 0
    repeats.leave_out(number, again.n_chunks)
    return again.n_chunks


_NOTHING: Final = KeptRows(
    np.empty(0, OPS_DTYPE),
    np.empty(0, TABLE_DTYPES["transfers"]),
    np.empty(0, TABLE_DTYPES["dispatches"]),
    np.empty(0, np.int64),
    FarEnds(np.empty(0, np.int64), np.empty(0, np.int64)),
)


class _Windows:
    """Follows paths window by window. `since_ps` is the begin of the next window."""

    def __init__(self, survey: LogSurvey) -> None:
        self.since_ps = 0
        self._survey = survey
        self._tables = survey.tables
        self._last_tiles = survey.last_tiles
        self._early = EarlyTransfers()
        self._kept = [_NOTHING]
        self._n_old = 0
        self._ways = EventWays({}, {})
        self._ends = EventWays({}, {})
        self._busy: dict[int, Counter[str]] = {}
        self._strings: list[str] = []
        self._leaves_pes = False
        self._rows: PathRows | None = None

    def add(self, chunk: ChunkRows) -> None:
        """Adds *chunk*, the next chunk of the log."""
        self._strings, dma = chunk.strings, chunk.dma
        rows = chunk.tables.get("transfers", _NOTHING.transfers)
        transfers = self._early.take_all(dma, rows, self._survey.models)
        dispatches = chunk.tables.get("dispatches", _NOTHING.dispatches)
        self._kept.append(KeptRows(chunk.ops, transfers, dispatches, dma.op_id, dma.far))

    def follow(self, end_ps: int) -> None:
        """Follows the paths of all events before *end_ps*. All ops that came before then are added."""
        log, far_op, far = self._log()
        rows = PathRows(log, self._last_tiles)
        transfers = TransferParts(rows, LazyServices(log, _dma_ops(log, far_op, far)))
        self._check(rows, transfers, end_ps)
        events, texts = events_of(rows, transfers), PathTexts(log.strings)
        labels = PathLabels(rows, transfers, texts)
        walk = PathWalk(rows, events, transfers, labels)
        self._count(rows, transfers)
        kept = self._to_keep(rows, transfers, end_ps)
        wanted = self._frontier(rows, events.numbers, events.time, kept, end_ps)
        ends = self._ends_in(rows, events.numbers, events.time, end_ps)
        forest = PathForest(walk, events, transfers, labels, texts)
        self._leaves_pes |= not walk.always_stays
        for stays, ways, found_ends in zip((False, True), self._ways, self._ends, strict=True):
            if not stays or self._leaves_pes:
                known = _by_number(rows, events.numbers, ways)
                nodes = forest.nodes(np.append(wanted, ends), known, self.since_ps, stays)
            ways.clear()
            ways.update(_named(rows, events.numbers, wanted, nodes))
            found_ends.update(_named(rows, events.numbers, ends, nodes))
        self._keep(log, rows, kept, (far_op, far))
        self._rows, self.since_ps = rows, end_ps

    def state(self, n_chunks: int) -> WindowState:
        """The state at the end of the last window, behind the first *n_chunks* chunks."""
        (kept,) = self._kept
        ways = EventWays(*(dict(each) for each in self._ways))
        busy = {launch: spent.copy() for launch, spent in self._busy.items()}
        return WindowState(n_chunks, self.since_ps, kept, self._early.rows, ways, busy)

    def repeat(self, again: Again) -> bool:
        """Repeats the last window by *again*, without its chunks. Returns False if its paths differ from *again*."""
        before, n, shift, _ = again
        rounds = [
            WaysRound.between(earlier, ways, shift, _COMMAND_KIND)
            for earlier, ways in zip(before.ways, self._ways, strict=True)
        ]
        found = [each for each in rounds if each is not None]
        if len(found) < len(rounds):
            return False
        for each, ways in zip(found, self._ways, strict=True):
            each.again(ways, n, shift)
        for launch, spent in self._busy.items():
            earlier = before.busy.get(launch, Counter())
            spent.update({block: n * (ps - earlier[block]) for block, ps in spent.items()})
        self._kept = [kept.later(shift.times(n)) for kept in self._kept]
        self._early.come_later(shift.times(n))
        self.since_ps += n * shift.ps
        return True

    def result(self) -> Where:
        """The sums of all paths."""
        assert self._rows is not None, "the last chunk ended a window"
        for launch, spent in work_of_commands(self._rows).items():
            self._busy.setdefault(launch, Counter()).update(spent)
        launches = [self._launch(self._rows, launch) for launch in np.unique(self._rows.kernels["launch"]).tolist()]
        unexplained_ps = sum(row.ps for launch in launches for row in launch.rows if row.block == UNKNOWN)
        return Where(launches=launches, missing=self._rows.missing, unexplained_ps=unexplained_ps)

    def _launch(self, rows: PathRows, launch: int) -> LaunchWhere:
        kernels = np.flatnonzero(rows.kernels["launch"] == launch)
        way, busy = LaunchWay(rows, launch, kernels), self._busy[launch].copy()

        def total(ways: dict[tuple[int, int], PathNode], kernel: int) -> PathTotal:
            found = total_of(ways[_END_OF_KERNEL, kernel])
            hops = hops_of(way, found.start_ps, int(rows.kernels["t_end_ps"][kernel]))
            found.sums.add_hops(0, hops)
            for hop, _ in hops:
                found.beyond[hop.block] = found.beyond.get(hop.block, 0) + hop.end_ps - hop.start_ps
            return found

        path = total(self._ends.anywhere, last_program(rows, kernels))
        busy.update(path.beyond)
        last = last_programs(rows, kernels)
        own = {kernel: total(self._ends.on_pe, kernel).sums.rows(0) for kernel in last}
        return launch_where(rows, launch, path.sums.rows(0), busy, pe_views(rows, way, own, last), path.n_ties)

    def _log(self) -> tuple[OpLog, Array, FarEnds]:
        """The rows at hand as a log in which all transfers have rows, and the far ends of its DMA ops."""
        ops, transfers, dispatches, far_op = (np.concatenate([each[at] for each in self._kept]) for at in range(4))
        owner, nbytes = (np.concatenate([each.far[at] for each in self._kept]) for at in (0, 1))
        order = np.argsort(far_op, kind="stable")
        self._kept.clear()
        tables = {**self._tables, "dispatches": dispatches, "transfers": transfers}
        found = {name: tables[name] for name in self._survey.auxiliary if name in tables}
        log = OpLog(ops, np.empty(0, OPERAND_DTYPE), self._strings, tables=found)
        return log, far_op[order], FarEnds(owner[order], nbytes[order])

    def _count(self, rows: PathRows, transfers: TransferParts) -> None:
        """Adds the work of the ops that are new in this window."""
        for launch, spent in work_of_ops(rows, transfers, rows.ops.row >= self._n_old).items():
            self._busy.setdefault(launch, Counter()).update(spent)

    def _check(self, rows: PathRows, transfers: TransferParts, end_ps: int) -> None:
        """Raises NoWindowsError if the next stage of a tile, or the request before a request, may be missing."""
        ops = rows.ops
        if (~ops.is_first[1:] & (ops.t_ready[1:] > ops.t_out[:-1])).any():
            raise NoWindowsError("a tile that came to its next stage after it left the one before")
        if (ops.t_out < ops.t_end).any():
            raise NoWindowsError("a tile that left a stage before its service ended")
        mine = (ops.t_end[transfers.op] >= self.since_ps) & (transfers.served_ps < end_ps)
        mine &= transfers.lengths("wait_ps", np.arange(len(transfers.op))) > 0
        behind = transfers.logged_behind[mine]
        if ((behind >= 0) & (rows.ops.find(behind) < 0)).any():
            raise NoWindowsError("a request behind one that was not kept")

    def _to_keep(self, rows: PathRows, transfers: TransferParts, end_ps: int) -> Array:
        """Whether later windows need each op: for each command, from the tile before its first needed tile on."""
        ops, commands = rows.ops, rows.commands
        needed = ops.t_out >= end_ps
        needed |= _is_awaited(rows, end_ps)[ops.command]
        first_start = np.full(len(ops.servers[0]), _END)
        np.minimum.at(first_start, ops.server[needed], ops.t_start[needed])
        needed |= ops.t_start >= first_start[ops.server]
        of_needed = transfers.of_op[needed]
        behind = ops.find(transfers.logged_behind[of_needed[of_needed >= 0]])
        needed[behind[behind >= 0]] = True
        every = np.arange(len(ops))
        first_of_tile = np.maximum.accumulate(np.where(ops.is_first, every, 0))
        first = np.full(len(commands), len(ops))
        np.minimum.at(first, ops.command[needed], first_of_tile[needed])
        is_open = commands.t_done >= end_ps
        last = np.full(len(commands), -1)
        np.maximum.at(last, ops.command, first_of_tile)
        first = np.where(is_open & (first == len(ops)) & (last >= 0), last, first)
        there = first < len(ops)
        before = ops.tile_before[first[there]]
        first[there] = np.where(before < 0, first[there], before)
        kept: Array = every >= first[ops.command]
        return kept

    def _keep(self, log: OpLog, rows: PathRows, kept: Array, far: tuple[Array, FarEnds]) -> None:
        in_log = np.zeros(log.n_ops, np.bool_)
        in_log[rows.ops.row[kept]] = True
        ops = log.ops[in_log]
        transfers, dispatches = (log.tables.get(name, getattr(_NOTHING, name)) for name in ("transfers", "dispatches"))
        transfers = transfers[np.isin(transfers["op_id"], ops["op_id"])]
        over = np.isin(dispatches["op_id"], log.ops["op_id"][~in_log])
        mine = np.isin(far[0], ops["op_id"])
        ends = FarEnds(*(column[mine] for column in far[1]))
        self._kept.append(KeptRows(ops, transfers, dispatches[~over], far[0][mine], ends))
        self._n_old = len(ops)

    def _frontier(self, rows: PathRows, numbers: Events, times: Array, kept: Array, end_ps: int) -> Array:
        """The events before *end_ps* that later events may follow.

        They are the events of the ops *kept*, of commands that are not done, of calls that wait or signal and are not
        over, and of the last command, call and program of each PE.
        """
        commands, kernels, syncs = rows.commands, rows.kernels, rows.syncs
        called = np.flatnonzero(commands.t_call < end_ps)
        is_open = commands.t_done[called] >= end_ps
        is_open[_last_of_each(commands.pe[called], commands.t_call[called])] = True
        begun = np.flatnonzero(kernels["t_start_ps"] < end_ps)
        runs = kernels["t_end_ps"][begun] >= end_ps
        runs[_last_of_each(kernels["pe"][begun], kernels["t_start_ps"][begun])] = True
        found = [numbers.op(event, np.flatnonzero(kept)) for event in OpEvent]
        found += [numbers.command(event, called[is_open]) for event in CommandEvent]
        found.append(numbers.kernel(KernelEvent.START, begun[runs]))
        begun = np.flatnonzero(np.minimum(syncs.t_called, syncs.t_origin) < end_ps)
        waits = syncs.t_went_on[begun] >= end_ps
        waits[_last_of_each(syncs.pe[begun], syncs.t_called[begun])] = True
        found += [numbers.sync(event, begun[waits]) for event in SyncEvent]
        events = np.concatenate(found)
        return np.asarray(events[times[events] < end_ps])

    def _ends_in(self, rows: PathRows, numbers: Events, times: Array, end_ps: int) -> Array:
        """The ends of programs in this window whose paths are reported."""
        wanted = list[int]()
        for launch in np.unique(rows.kernels["launch"]).tolist():
            kernels = np.flatnonzero(rows.kernels["launch"] == launch)
            wanted += [last_program(rows, kernels), *last_programs(rows, kernels)]
        ends = numbers.kernel(KernelEvent.END, np.unique(np.array(wanted, np.int64)))
        return ends[(times[ends] >= self.since_ps) & (times[ends] < end_ps)]


_COMMAND_KIND: Final = len(OpEvent)
_KERNEL_KIND: Final = _COMMAND_KIND + len(CommandEvent)
_END_OF_KERNEL: Final = _KERNEL_KIND + KernelEvent.END
_SYNC_KIND: Final = _KERNEL_KIND + len(KernelEvent)


def _named(
    rows: PathRows, numbers: Events, events: Array, nodes: dict[int, PathNode]
) -> Iterator[tuple[tuple[int, int], PathNode]]:
    """Yields the nodes of *events*, by kind and the id of the op, or the number of the command or program."""
    for kind, first, ids in _kinds(rows, numbers):
        mine = events[(events >= first) & (events < first + len(ids))]
        for event, name in zip(mine.tolist(), ids[mine - first].tolist(), strict=True):
            if event in nodes:
                yield (kind, name), nodes[event]


def _by_number(rows: PathRows, numbers: Events, ways: dict[tuple[int, int], PathNode]) -> dict[int, PathNode]:
    """The nodes of *ways* whose ops are in *rows*, by the number of their event."""
    of_kind: dict[int, list[tuple[int, PathNode]]] = {}
    for (kind, name), node in ways.items():
        of_kind.setdefault(kind, []).append((name, node))
    found: dict[int, PathNode] = {}
    for kind, first, ids in _kinds(rows, numbers):
        mine = of_kind.get(kind, [])
        names = np.array([name for name, _ in mine], np.int64)
        place = np.searchsorted(ids, names)
        for at, name, (_, node) in zip(place.tolist(), names.tolist(), mine, strict=True):
            if at < len(ids) and ids[at] == name:
                found[first + at] = node
    return found


def _kinds(rows: PathRows, numbers: Events) -> Iterable[tuple[int, int, Array]]:
    """Yields each kind of events: its number, its first event, and the ascending ids of its events."""
    first = 0
    for kind in range(_SYNC_KIND + len(SyncEvent)):
        if kind < _COMMAND_KIND:
            ids = rows.ops.op_id
        elif kind < _KERNEL_KIND:
            ids = np.arange(numbers.n_commands)
        else:
            ids = np.arange(numbers.n_kernels if kind < _SYNC_KIND else numbers.n_syncs)
        yield kind, first, ids
        first += len(ids)


def _is_awaited(rows: PathRows, end_ps: int) -> Array:
    """Whether each command sends a message whose doorbell rings at or after *end_ps* for a kernel that waits."""
    syncs = rows.syncs
    rings = syncs.waited & (syncs.reason == SyncReason.MESSAGE) & (syncs.t_went_on >= end_ps)
    return np.isin(rows.commands.seq, syncs.by_seq[rings])


def _last_of_each(group: Array, time: Array) -> Array:
    """The last element of each *group* by *time*; of several, the last."""
    order = np.lexsort((np.arange(len(group)), time, group))
    is_last: Array = np.append(group[order][1:] != group[order][:-1], True)[: len(order)]
    return np.asarray(order[is_last])


def _dma_ops(log: OpLog, far_op: Array, far: FarEnds) -> DmaOps:
    def find_far(ops: DmaOps) -> FarEnds:
        at = np.searchsorted(far_op, ops.op_id)
        return FarEnds(far.owner[at], far.nbytes[at])

    return DmaOps(DmaRows.of(log), find_far)
