"""RunTimeline: the lanes of one run, in tables that are made when a page first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from kb_cli.run.base.result import LaunchTimes
from kb_cli.run.base.workload_result import OpResult
from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import is_pe
from kb_cli.trace.critical_path import segment_name, segment_texts
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.slices import launch_slices, memory_slices, op_slices, wait_slices, without_overlap
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_cli.trace.transfers import Floats, flows_of
from kb_cli.web.lanes.colourings import (
    COMMAND,
    LINE,
    MOST_NAMES,
    ON_PATH,
    PATH,
    STAGE,
    all_alike,
    by_command,
    by_every_word,
    by_one_line,
    by_path,
    by_words,
)
from kb_cli.web.lanes.fold_table import FoldTable
from kb_cli.web.lanes.lane_table import Kinds, LaneTable, LaneWindow
from kb_cli.web.lanes.link_table import USED, LinkFolds, LinkTable
from kb_cli.web.lazy_parts import LazyParts
from kb_dataexec import OpLog
from kb_dataexec.analysis import Causes, PathColumns
from kb_dataexec.log import TABLE_DTYPES
from kb_engine.engine import chip_of
from kb_messages import KbError, SyncReason
from kb_topology import Topology

OPS, WAITS, MEMORIES, LAUNCHES, CRITICAL, LINKS = TABLES = ("ops", "waits", "memories", "launches", "path", "links")
"""The tables. `waits` has the waits of kernels for other PEs, and `path` the critical path as one lane."""
FOLDED: Final = ".folded"
"""Behind the name of a table: the folds of its lanes, which are parts of the chip."""
HAVE_FOLDS: Final = (OPS, MEMORIES, LINKS)
_PART_OF_TABLE: Final = {"kernels": "the critical path", "transfers": "the service of memories"}
"""The content of auxiliary tables of a log, as words. A run writes these tables when it ends."""
_MOST_CHAINS: Final = 4
_PATH_PLACE: Final = TrackPlace("critical path", "critical path")


class Windowed(Protocol):
    """Lanes, or folds of lanes, whose content of a window can be shown."""

    def window(self, lane: int, edges: Floats, kinds: Kinds, few: int, /) -> LaneWindow:
        """Returns the content of *lane* between the *edges* of pixels, as slices where these are at most *few*."""


class RunTimeline:
    """The lanes of *log*, the log of the run in *folder*. *launches* are the launches of its run.json, none without
    one, and *of_workload* the ops of a workload. *find_chip* finds the chip of the run, whose links are shown; there
    are none without it.

    *goes_on* says that the run was not over when its log was read.
    """

    def __init__(
        self,
        folder: Path,
        log: OpLog,
        launches: list[LaunchTimes],
        goes_on: bool = False,
        of_workload: Sequence[OpResult] = (),
        find_chip: Callable[[], Topology] | None = None,
    ) -> None:
        self.workload_ops, self._find_chip = of_workload, find_chip
        self.folder, self.log, self.launches, self._goes_on = folder, log, launches, goes_on
        self._parts = LazyParts()
        ops = log.ops
        calls = [round(each.call_ns * PS_PER_NS) for each in launches]
        answers = [round(each.response_ns * PS_PER_NS) for each in launches]
        self.start_ps = min([*calls, *_least(ops["t_ready_ps"])], default=0)
        self.end_ps = max([int(ops["t_out_ps"].max(initial=0)), *answers, self.start_ps + 1])

    @property
    def notes(self) -> list[str]:
        """One sentence for each part that the timeline cannot show."""
        lacks = {name: what for name, what in _PART_OF_TABLE.items() if name in self.log.missing}
        if self.log.is_complete:
            got = f"{self.folder}: got a log without the table"
            return [f"{got} {name}, so {what} is left out" for name, what in lacks.items()]
        without = f", without {' and '.join(lacks.values())}" if lacks else ""
        end = f"{self.end_ps / PS_PER_NS:,.3f} ns"
        if self._goes_on:
            return [f"The run goes on. Its log goes up to {end} so far{without}."]
        return [f"{self.folder}: got a log that was cut off: it goes up to {end}{without}, and the rest is missing"]

    @property
    def tables(self) -> list[str]:
        """The names of the tables that the run has."""
        has_path = "kernels" not in self.log.missing and len(self.log.table("kernels")) > 0
        waits = self.log.tables.get("waits", np.empty(0, TABLE_DTYPES["waits"]))
        of_kernels = waits["reason"] <= SyncReason.BARRIER
        there = {WAITS: bool(((waits["to_ps"] > waits["from_ps"]) & of_kernels).any())}
        there |= {MEMORIES: "transfers" not in self.log.missing, LAUNCHES: bool(self.launches), CRITICAL: has_path}
        there |= {LINKS: self._find_chip is not None and len(self.log.ops) > 0}
        return [OPS, *(name for name, is_there in there.items() if is_there)]

    def table(self, name: str) -> LaneTable:
        """Returns the table *name*. Raises KbError where the run has none, with the reason."""
        makers = {
            OPS: self._ops,
            WAITS: self._waits,
            MEMORIES: self._memories,
            LAUNCHES: self._launches,
            CRITICAL: self._critical,
        }
        if name not in makers:
            raise KbError("table", repr(name[:40]), f"one of {', '.join(makers)}")
        return self._parts.part(name, makers[name])

    def windowed(self, name: str) -> Windowed:
        """Returns the lanes of the table *name*, or of its folds with FOLDED behind it. Raises KbError where the run
        has none.
        """
        base = name.removesuffix(FOLDED)
        if base == LINKS:
            return LinkFolds(self.links) if name != base else self.links
        return self.table(base) if name == base else self.folds(base)

    def folds(self, name: str) -> FoldTable:
        """Returns the folds of the lanes of the table *name*: of PEs for OPS, of memories for MEMORIES. Raises KbError
        for a table without folds.
        """
        if name not in (OPS, MEMORIES):
            raise KbError("table", repr(name[:40]), f"one of {OPS}, {MEMORIES}")
        return self._parts.part((name, FOLDED), lambda: self._new_folds(name))

    def _new_folds(self, name: str) -> FoldTable:
        table = self.table(name)
        if name == MEMORIES:
            return FoldTable(table, [place.title.partition(":")[0] for place in table.lanes])
        return FoldTable(table, [place.group if is_pe(place.group) else "" for place in table.lanes])

    @property
    def links(self) -> LinkTable:
        """The links of the chip that DMAs used. Raises KbErrors where the chip is not known or not installed."""
        return self._parts.part(LINKS, self._new_links)

    def _new_links(self) -> LinkTable:
        if self._find_chip is None:
            raise KbError("table", LINKS, "a run whose chip is known")
        return LinkTable(list(flows_of(self.log)), chip_of(self._find_chip()))

    def _ops(self) -> LaneTable:
        slices = op_slices(self.log.ops, self.log.strings, str(self.folder))
        return LaneTable(slices, *_words(slices.names))

    def _waits(self) -> LaneTable:
        slices = wait_slices(self.log)
        if slices is None:
            raise KbError("table", WAITS, "a log with waits of kernels for other PEs")
        words = [name.split(" ", 3) for name in slices.names]  # reason, "of", PE, line
        return LaneTable(slices, [reason for reason, *_ in words], [line for *_, line in words])

    def _memories(self) -> LaneTable:
        slices = memory_slices(self.log)
        return LaneTable(slices, *_words([name.partition(": ")[2] for name in slices.names]))

    def _launches(self) -> LaneTable:
        slices = launch_slices(self.launches, self.workload_ops)
        has_room = len(self.workload_ops) < MOST_NAMES
        kinds = {op.name: op.name if has_room else op.kind for op in self.workload_ops}
        return LaneTable(slices, [kinds.get(name, "launch") for name in slices.names], [""] * len(slices.names))

    def _critical(self) -> LaneTable:
        """Returns one lane, or more where launches of streams overlap."""
        paths = self.paths
        strings = paths[-1].strings if paths else []  # the strings of a path include the strings of earlier paths
        columns = {name: _joined(paths, name) for name in ("start_ps", "end_ps", "block", "what", "line", "op_id")}
        order = np.lexsort((columns["end_ps"], columns["start_ps"]))
        start, end, block, what, line, op = (column[order] for column in columns.values())
        name, texts = segment_texts(block, what, line, strings)
        names = [segment_name(*each) for each in texts]
        track = np.zeros(len(start), np.int64)
        slices = Slices([_PATH_PLACE], track, start, end, name, names, {"op": op})
        slices = without_overlap(slices)
        return LaneTable(slices, [block for block, _, _ in texts], [line for _, _, line in texts])

    @property
    def causes(self) -> Causes:
        """The causes of everything in the log. Raises LogError for a log without the table of kernels."""
        return self._parts.part("causes", lambda: Causes(self.log))

    @property
    def paths(self) -> list[PathColumns]:
        """The critical path of each launch."""
        return self._parts.part("paths", lambda: list(self.causes.paths()))

    def chain(self, op_id: int) -> PathColumns:
        """Returns the causes of the end of *op_id* back to the start of its program. Some chains are kept."""
        kept = self._parts.part("chains", dict[int, PathColumns])
        if op_id not in kept:
            kept[op_id] = self.causes.before(op_id)
            while len(kept) > _MOST_CHAINS:
                kept.pop(next(iter(kept)))
        return kept[op_id]

    def kinds(self, name: str, colouring: str, line: str | None) -> Kinds:
        """Returns the colours of the slices of the table *name*. With *line*, that line differs from all others.

        Launches have colours by op alone. Waits of kernels belong to no command, and are on no path.
        """
        name = name.removesuffix(FOLDED)
        if name == LINKS:
            return Kinds(STAGE, np.empty(0, np.uint8), (USED,))
        wanted = STAGE if (colouring == COMMAND and name == WAITS) or name == LAUNCHES else colouring
        if name == LAUNCHES and line is None:
            return self._parts.part((name, STAGE), lambda: by_every_word(self.table(name)))
        key = name, wanted if line is None else f"only {line}"
        return self._parts.part(key, lambda: self._new_kinds(name, wanted, line))

    def _new_kinds(self, name: str, colouring: str, line: str | None) -> Kinds:
        table = self.table(name)
        if line is not None:
            return by_one_line(table, line)
        if colouring == COMMAND:
            return by_command(self._commands(table))
        if colouring == PATH and name == CRITICAL:
            return all_alike(table, PATH, ON_PATH)
        if colouring == PATH and name != WAITS:
            return by_path(table, np.unique(_joined(self.paths, "op_id")))
        return by_words(table, LINE if colouring == LINE else STAGE)

    def _commands(self, table: LaneTable) -> Ints:
        """Returns the command of each slice of *table*, -1 for none. A slice of the path has that of its op."""
        found = table.slices.arguments.get("command")
        if found is not None:
            return found
        op, (ids, rows) = table.slices.arguments["op"], self._parts.part("rows", self._rows_by_op)
        at = np.searchsorted(ids, np.maximum(op, 0))
        of_op = np.append(self.table(OPS).slices.arguments["command"][rows], -1)
        return np.where(op >= 0, of_op[at], -1)

    def row_of(self, op_id: int) -> int:
        """Returns the row of the table of ops that shows *op_id*. Raises KbError for an op that is not there."""
        ids, rows = self._parts.part("rows", self._rows_by_op)
        at = int(np.searchsorted(ids, op_id))
        if at == len(ids) or ids[at] != op_id:
            raise KbError("op", str(op_id), f"an op of the log, {ids[0]} to {ids[-1]}" if len(ids) else "none")
        return int(rows[at])

    def _rows_by_op(self) -> tuple[Ints, Ints]:
        ids = self.table(OPS).slices.arguments["op"]
        rows = np.argsort(ids, kind="stable")
        return ids[rows], rows

    def record_of(self, op_id: int) -> int:
        """Returns the row of *op_id*, which is there, in the log's table of ops."""
        ids, rows = self._parts.part("records", self._records_by_op)
        return int(rows[np.searchsorted(ids, op_id)])

    def _records_by_op(self) -> tuple[Ints, Ints]:
        ids = np.ascontiguousarray(self.log.ops["op_id"])
        rows = np.argsort(ids, kind="stable")
        return ids[rows], rows


def _joined(paths: list[PathColumns], name: str) -> Ints:
    return np.concatenate([getattr(each, name) for each in paths]) if paths else np.empty(0, np.int64)


def _least(times: Ints) -> list[int]:
    return [int(times.min())] if len(times) else []


def _words(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the stage and the line of each name."""
    parts = [name.partition(" ") for name in names]
    return [stage for stage, _, _ in parts], [line for _, _, line in parts]
