"""Sums over the lanes of a run in a window of time."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.answers.timeline import times
from kb_cli.web.lanes.lane_table import LaneTable, Mask
from kb_cli.web.run_timeline import CRITICAL, MEMORIES, OPS, RunTimeline
from kb_cli.web.web_request import WebRequest


class WorkSum(Struct, frozen=True, kw_only=True):
    """The sum of lanes that do the same, such as `pe_gemm: gemm` or `hbm: served`.

    There are `lanes` of them, with as many `slices` in the window, which take `busy_ps` together.
    """

    title: str
    lanes: int
    slices: int
    busy_ps: int


class PathSum(Struct, frozen=True, kw_only=True):
    """The time of a block on the critical path in the window."""

    block: str
    ps: int


class WindowSums(Struct, frozen=True, kw_only=True):
    """The work from `t0_ps` to `t1_ps`: lanes in their order, and blocks of the path by time.

    Times of lanes overlap. Times of the path do not. `has_path` says whether the log has the path.
    """

    t0_ps: int
    t1_ps: int
    work: list[WorkSum]
    path: list[PathSum]
    has_path: bool


def sums(asked: WebRequest) -> WebAnswer:
    """Answers with the sums between `t0` and `t1`; with the field `line`, of that kernel line alone."""
    return json_answer(window_sums(asked.run.timeline, times(asked), asked.fields.get("line")))


def window_sums(timeline: RunTimeline, window: tuple[int, int], line: str | None) -> WindowSums:
    """Returns the sums in *window*, its begin and its end in ps."""
    names = timeline.tables
    work = [each for name in (OPS, MEMORIES) if name in names for each in _work(timeline.table(name), window, line)]
    has_path = CRITICAL in names
    path = _path(timeline.table(CRITICAL), window, line) if has_path else []
    return WindowSums(t0_ps=window[0], t1_ps=window[1], work=work, path=path, has_path=has_path)


def _work(table: LaneTable, window: tuple[int, int], line: str | None) -> list[WorkSum]:
    found = table.within(*window, _of_line(table, line))
    by_title: dict[str, list[int]] = {}
    for lane, place in enumerate(table.lanes):
        by_title.setdefault(_what(place.title), []).append(lane)
    return [
        WorkSum(
            title=title,
            lanes=len(lanes),
            slices=int(found.n_slices[lanes].sum()),
            busy_ps=int(found.busy_ps[lanes].sum()),
        )
        for title, lanes in by_title.items()
    ]


def _what(title: str) -> str:
    """Returns the title of a lane without the place of a memory: all HBMs of a chip have one sum."""
    block, _, what = title.rpartition(": ")
    return f"{block.rpartition('.')[2].rstrip('0123456789')}: {what}" if block else what


def _path(table: LaneTable, window: tuple[int, int], line: str | None) -> list[PathSum]:
    of_line, blocks = _of_line(table, line), np.array(table.stages, np.str_)
    found = []
    for block in dict.fromkeys(table.stages):
        ps = int(table.within(*window, of_line & (blocks == block)[table.slices.name]).busy_ps.sum())
        if ps:
            found.append(PathSum(block=block, ps=ps))
    return sorted(found, key=lambda each: (-each.ps, each.block))


def _of_line(table: LaneTable, line: str | None) -> Mask:
    if line is None:
        return np.ones(len(table.slices.track), np.bool_)
    found: Mask = np.array([each == line for each in table.lines], np.bool_)[table.slices.name]
    return found
