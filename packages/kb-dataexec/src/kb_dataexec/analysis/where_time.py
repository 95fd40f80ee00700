"""Where the time of a log's launches went: critical paths, and the rows that they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kb_dataexec.analysis.attribution import LaunchWhere, PathColumns, PeWhere, Where, WhereRow
from kb_dataexec.analysis.launch_way import HopSegment, LaunchWay
from kb_dataexec.analysis.path_busy import busy_of
from kb_dataexec.analysis.path_causes import events_of
from kb_dataexec.analysis.path_events import KernelEvent
from kb_dataexec.analysis.path_rows import PathRows
from kb_dataexec.analysis.path_transfers import BUSY_WITH_OTHERS, TransferParts
from kb_dataexec.analysis.path_walk import UNKNOWN, PathTexts, PathWalk, Segments
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError

_FIELDS = "line", "block", "what", "via"


def where(log: OpLog) -> Where:
    """Where the time of each launch of *log* went. A log without the table of kernels has no launches to tell of."""
    if "kernels" in log.missing:
        return Where(launches=[], missing=[name for name in log.missing if name != "dependencies"])
    paths = _Paths(log)
    launches = [paths.launch_where(launch) for launch in paths.launches]
    unexplained_ps = sum(row.ps for launch in launches for row in launch.rows if row.block == UNKNOWN)
    return Where(launches=launches, missing=paths.rows.missing, unexplained_ps=unexplained_ps)


def path(log: OpLog, launch: int) -> PathColumns:
    """The critical path of the launch number *launch*, from the host's call to its answer.

    Raises LogError when *log* has no table of kernels, or no such launch in it.
    """
    paths = _Paths(log)
    if launch not in paths.launches:
        told = ", ".join(map(str, paths.launches)) or "none"
        raise LogError("op log", f"launch {launch}", f"one of the launches of the log ({told})")
    return paths.launch_path(launch)


def paths(log: OpLog) -> Iterator[PathColumns]:
    """The critical path of each launch of *log*. Raises LogError when *log* has no table of kernels."""
    found = _Paths(log)
    return map(found.launch_path, found.launches)


class _Paths:
    """The paths of *log*, each computed when it is asked for."""

    def __init__(self, log: OpLog) -> None:
        self.rows = PathRows(log)
        self._transfers = TransferParts(self.rows)
        self._events = events_of(self.rows, self._transfers)
        self._walk = PathWalk(self.rows, self._events, self._transfers, PathTexts(log.strings))

    @cached_property
    def launches(self) -> list[int]:
        """The numbers of the launches."""
        found: list[int] = np.unique(self.rows.kernels["launch"]).tolist()
        return found

    def launch_path(self, launch: int) -> PathColumns:
        """The path of the program that ends last, the first of several."""
        kernels, way = self._launch(launch)
        return self._columns(way, launch, self._last(kernels))

    def launch_where(self, launch: int) -> LaunchWhere:
        """The rows of *launch*, of the whole and of each PE."""
        kernels, way = self._launch(launch)
        last = self._last(kernels)
        whole = self._columns(way, launch, last)
        ends = self.rows.kernels["t_end_ps"][kernels]
        ties = self._ties(last) + int((ends == way.last_end_ps).sum() > 1)
        busy = busy_of(self.rows, self._transfers, kernels, whole)
        rows = rows_of(whole)
        on_path = dict.fromkeys(busy, 0)
        for row in rows:
            if row.what != BUSY_WITH_OTHERS:
                on_path[row.block] = on_path.get(row.block, 0) + row.ps
        return LaunchWhere(
            launch=launch,
            start_ps=way.call_ps,
            kernels_start_ps=way.first_start_ps,
            kernels_end_ps=way.last_end_ps,
            end_ps=way.answer_ps,
            rows=rows,
            pes=self._pes(way, launch, kernels),
            busy=busy,
            hidden={block: ps - on_path[block] for block, ps in busy.items()},
            ties=ties,
        )

    def _launch(self, launch: int) -> tuple[Array, LaunchWay]:
        kernels = np.flatnonzero(self.rows.kernels["launch"] == launch)
        return kernels, LaunchWay(self.rows, launch, kernels)

    def _last(self, kernels: Array) -> int:
        return int(kernels[np.argmax(self.rows.kernels["t_end_ps"][kernels])])

    def _pes(self, way: LaunchWay, launch: int, kernels: Array) -> list[PeWhere]:
        """Each PE's own view, back from its program that ends last. PEs with equal rows are one entry."""
        strings = self.rows.log.strings
        found: dict[tuple[WhereRow, ...], list[str]] = {}
        pes, ends = (self.rows.kernels[name][kernels] for name in ("pe", "t_end_ps"))
        order = np.lexsort((-ends, pes))
        _, first = np.unique(pes[order], return_index=True)
        for kernel in kernels[order[first]].tolist():
            rows = rows_of(self._columns(way, launch, kernel, stays=True))
            found.setdefault(tuple(rows), []).append(strings[self.rows.kernels["pe"][kernel]])
        times = {"start_ps": way.call_ps, "end_ps": way.answer_ps}
        return [PeWhere(pes=pes, rows=list(rows), **times) for rows, pes in found.items()]

    def _columns(self, way: LaunchWay, launch: int, kernel: int, stays: bool = False) -> PathColumns:
        return self._walk.columns(launch, list(self._parts(way, self._back(kernel, stays))))

    def _parts(self, way: LaunchWay, back: Array) -> Iterator[Segments]:
        """From the last answer back to the call, by way of the events *back* of programs."""
        walk = self._walk
        start_ps, end_ps = (int(self._events.time[back[at]]) for at in (-1, 0))
        yield walk.hops(way.up(), "answer")
        yield walk.hops([HopSegment(end_ps, way.last_end_ps, "program", "waits for other PEs")], "end")
        yield walk.segments(back)
        before = way.down(start_ps)
        late = [hop._replace(start_ps=max(hop.start_ps, way.first_start_ps)) for hop in before]
        yield walk.hops(late, "start")
        yield walk.hops([hop._replace(end_ps=min(hop.end_ps, way.first_start_ps)) for hop in before], "launch")

    def _back(self, kernel: int, stays: bool = False) -> Array:
        end, start = (
            int(self._events.numbers.kernel(event, np.array(kernel))) for event in (KernelEvent.END, KernelEvent.START)
        )
        return self._walk.back_from(end, start, stays)

    def _ties(self, kernel: int) -> int:
        return int(self._events.is_tie[self._back(kernel)].sum())


def rows_of(path: PathColumns) -> list[WhereRow]:
    """The segments of *path* added up by what they have in common, the dearest rows first."""
    if not len(path.start_ps):
        return []
    key = np.zeros(len(path.start_ps), np.int64)
    for name in _FIELDS:
        texts, number = np.unique(getattr(path, name), return_inverse=True)
        key = key * len(texts) + number
    _, first, row, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    kinds = np.stack([getattr(path, name)[first] for name in _FIELDS], axis=1)
    spent = np.zeros(len(kinds), np.int64)
    np.add.at(spent, row, path.end_ps - path.start_ps)
    rows = [
        WhereRow(**{name: path.strings[text] for name, text in zip(_FIELDS, kind, strict=True)}, ps=ps, segments=count)
        for kind, ps, count in zip(kinds.tolist(), spent.tolist(), counts.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.ps, row.line, row.block, row.what, row.via))
