"""The chip's diagram, coloured by how busy its parts were in a window, and the busiest of them."""

from __future__ import annotations

from typing import Final, get_args

from msgspec import Struct

from kb_cli.report.chip import default_view, view_of
from kb_cli.trace.window_loads import UsedPart
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.chip_use import chip_use
from kb_cli.web.opened_run import OpenedRun
from kb_cli.web.run_timeline import OPS
from kb_cli.web.timeline_answer import times
from kb_cli.web.web_request import WebRequest
from kb_messages import KbError
from kb_topology.diagram import VIEWS, LinkLoad, Loads, NodeLoad, View, draw, percent, rounded_nbytes

_MOST: Final = 200
_USERS: Final = 8


class BusyPart(Struct, frozen=True, kw_only=True):
    """A link or a memory: the share of its bandwidth (None where none is known), bytes, and PEs by bytes.

    `users` counts the PEs; `by_pe` has those with most bytes. PEs that one read answers have its bytes each.
    """

    name: str
    share: float | None
    nbytes: int
    users: int
    by_pe: dict[str, int]


class WebChip(Struct, frozen=True, kw_only=True):
    """The picture of the `view` of `part`, and the busiest links and memories between `t0_ps` and `t1_ps`.

    `more` counts those that are left out. `is_counted` says that they are the counters of a whole run, which cover
    its launches; otherwise they come from the log.
    """

    svg: str
    view: str
    views: list[str]
    part: str
    t0_ps: int
    t1_ps: int
    parts: list[BusyPart]
    more: int
    notes: list[str]
    is_counted: bool


def topology(asked: WebRequest) -> WebAnswer:
    """The chip of the run; `view` and `part` as `kb topology show` takes them, `t0` and `t1` for a window."""
    run = asked.run
    chip = run.chip
    part = asked.fields.get("part", "")
    view = _view(asked.fields.get("shown") or (view_of(part) if part else default_view(chip)))
    has_window = "t0" in asked.fields or "t1" in asked.fields
    timeline = run.timeline
    window = times(asked) if has_window else (timeline.start_ps, timeline.end_ps)
    found, notes, counted = chip_use(run, window, not has_window)
    loads = Loads(run.place.name, _links(found), {**_blocks(run, window), **_memories(found)})
    if counted is not None:
        loads = Loads(run.place.name, counted.links, counted.nodes)
    return json_answer(
        WebChip(
            svg=draw(chip, view, part, loads),
            view=view,
            views=[each for each in VIEWS if each != "pe" or chip.graph.pe_ids],
            part=part,
            t0_ps=window[0],
            t1_ps=window[1],
            parts=[_busy(each) for each in found[:_MOST]],
            more=max(len(found) - _MOST, 0),
            notes=[*timeline.notes, *notes],
            is_counted=counted is not None,
        )
    )


def _view(text: str) -> View:
    views: tuple[View, ...] = get_args(View)
    for view in views:
        if view == text:
            return view
    raise KbError("shown", repr(text[:40]), f"one of {', '.join(views)}")


def _links(found: list[UsedPart]) -> dict[tuple[str, str], LinkLoad]:
    return {
        (each.ends[0], each.ends[1]): LinkLoad(min(each.share or 0.0, 1.0), round(each.nbytes))
        for each in found
        if each.ends
    }


def _memories(found: list[UsedPart]) -> dict[str, NodeLoad]:
    return {
        each.title: NodeLoad(
            min(each.share, 1.0), f"{percent(each.share)} of its bandwidth, {rounded_nbytes(round(each.nbytes))}"
        )
        for each in found
        if not each.ends and each.share is not None
    }


def _blocks(run: OpenedRun, window: tuple[int, int]) -> dict[str, NodeLoad]:
    """How long each block of a PE was at work, of the busier of its stages."""
    table = run.timeline.table(OPS)
    shares: dict[str, dict[str, float]] = {}
    for lane, place in enumerate(table.lanes):
        block, _, stage = place.title.partition(": ")
        by_stage = shares.setdefault(f"{place.group}.{block}", {})
        by_stage[stage] = by_stage.get(stage, 0.0) + table.busy_share(lane, *window)
    return {node: NodeLoad(min(max(found.values()), 1.0), _words(found)) for node, found in shares.items()}


def _words(by_stage: dict[str, float]) -> str:
    return ", ".join(f"{stage} {percent(share)}" for stage, share in by_stage.items())


def _busy(each: UsedPart) -> BusyPart:
    first = list(each.by_pe.items())[:_USERS]
    return BusyPart(
        name=each.title,
        share=each.share,
        nbytes=round(each.nbytes),
        users=len(each.by_pe),
        by_pe={pe: round(nbytes) for pe, nbytes in first},
    )
