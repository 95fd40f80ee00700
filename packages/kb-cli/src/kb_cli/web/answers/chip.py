"""The view of the chip: its diagram, coloured by how busy its parts were in a window, and its busiest parts."""

from __future__ import annotations

from typing import Final, NamedTuple, get_args

from msgspec import Struct, UnsetType

from kb_cli.report.data.chip import view_of
from kb_cli.run.records.run_loads import counted_loads
from kb_cli.trace.traffic import UsedPart, used_parts
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.answers.chip_place import Crumb, MostUsed, crumbs, hot_part, part_of, siblings
from kb_cli.web.answers.timeline import times
from kb_cli.web.opened_runs import OpenedRun
from kb_cli.web.run_timeline import OPS
from kb_cli.web.web_request import WebRequest
from kb_engine.engine import chip_of
from kb_engine.observe import Chip
from kb_messages import KbError
from kb_topology.diagram import VIEWS, LinkLoad, Loads, NodeLoad, View, draw, percent, rounded_nbytes


class ChipUse(NamedTuple):
    """The used links and memories, the most used first, notes for the reader, and the run's counters if they were
    used.
    """

    parts: list[UsedPart]
    notes: list[str]
    counted: Loads | None


def chip_use(run: OpenedRun, window: tuple[int, int], is_whole: bool) -> ChipUse:
    """Returns the use of the chip of *run*: with *is_whole*, by the counters of a run that ended, otherwise by its
    log.
    """
    notes: list[str] = []
    counted = _counted(run, notes) if is_whole and run.place.state == "complete" else None
    chip, logged = None, list[UsedPart]()
    try:
        chip = chip_of(run.chip)
        logged = used_parts(run.flows, chip, *window, run.uses)
    except KbError as error:  # a chip whose blocks are not installed here
        what = "use of links and memories" if counted is None else "PEs that used links and memories"
        notes.append(f"{run.place.name}: got no {what}: {error}")
    is_shared = chip is not None and _shares_reads(chip)
    if counted is not None:
        return ChipUse(_by_counters(logged, counted, is_shared), notes, counted)
    return ChipUse(logged, notes + _doubts(logged, is_shared), None)


def _counted(run: OpenedRun, notes: list[str]) -> Loads | None:
    try:
        return counted_loads(run.place.path, run.files.run, run.chip.graph)
    except KbError as error:
        notes.append(f"{error}; shares come from the log")
        return None


def _by_counters(logged: list[UsedPart], counted: Loads, is_shared: bool) -> list[UsedPart]:
    """Returns the parts with the shares and bytes of *counted*.

    Memories that count no bytes keep the bytes of the log, but no share if reads are shared.
    """
    known = {each.title: each for each in logged}
    sums: dict[tuple[str, ...], LinkLoad | NodeLoad] = {(node,): load for node, load in counted.nodes.items()}
    sums.update(counted.links.items())
    found = []
    for place, load in sums.items():
        if load.nbytes:
            title, ends = " -> ".join(place), place if len(place) > 1 else ()
            of_log = known.pop(title, None)
            by_pe = {} if of_log is None else of_log.by_pe
            found.append(UsedPart(title, ends, load.utilization, load.nbytes, by_pe))
    found += [each._replace(share=None) if is_shared else each for each in known.values()]
    return sorted(found, key=lambda each: (-(each.share or 0.0), -each.nbytes, each.title))


def _shares_reads(chip: Chip) -> bool:
    """Whether one read of a memory can answer several PEs."""
    if not isinstance(chip.topology.spec.multicast, UnsetType):
        return True
    return any(getattr(block.spec, "multicast", 1) > 1 for block in chip.components.values())


def _doubts(logged: list[UsedPart], is_shared: bool) -> list[str]:
    """Returns the reason for which shares and bytes of the log may be too high."""
    over = next((each for each in logged if (each.share or 0.0) > 1), None)
    if is_shared and logged:
        note = "Where one read answers several PEs, bytes and shares count it once for each of them, "
        note += "and bytes from a cache count against the bandwidth of the memory behind the cache. So a share can be "
        note += "too high and pass 100 %; the counters of a run that ended have no such error."
    elif over is not None:
        note = f"{over.title} has {percent(over.share or 0.0)}: bytes count evenly over the time of a transfer, "
        note += "and bytes from a cache count against the bandwidth of the memory behind the cache."
    else:
        return []
    return [note]


_MOST: Final = 200
_USERS: Final = 8


class BusyPart(Struct, frozen=True, kw_only=True):
    """A link or a memory: the used share of its bandwidth (None where none is known), bytes, and PEs by bytes.

    `part` is the smallest SIP, cube or PE that holds it. `users` counts the PEs; `by_pe` has the PEs with most bytes.
    Several PEs that one read answers have its bytes each.
    """

    name: str
    part: str
    share: float | None
    nbytes: int
    users: int
    by_pe: dict[str, int]


class WebChip(Struct, frozen=True, kw_only=True):
    """The picture of the `view` of `part`, and the busiest links and memories between `t0_ps` and `t1_ps`.

    `crumbs` lead from the chip to the part, and `siblings` are the parts beside it. `why` is what is hot in a part
    that the page did not name. `more` counts the parts that are left out. `is_counted` says that the figures
    are the counters of a whole run, which cover its launches; otherwise they come from the log. Without `has_users`
    the log was not read: no link and no memory has its PEs yet, and the window is not known.
    """

    svg: str
    view: str
    views: list[str]
    part: str
    crumbs: list[Crumb]
    siblings: list[str]
    why: MostUsed | None
    t0_ps: int
    t1_ps: int
    parts: list[BusyPart]
    more: int
    notes: list[str]
    is_counted: bool
    has_users: bool


def topology(asked: WebRequest) -> WebAnswer:
    """Answers with the chip of the run. `view` and `part` are as for `kb topology show`; `t0` and `t1` choose a
    window. With `users=later` a whole run that ended is answered from its counters alone, without its log.
    """
    run = asked.run
    has_window = "t0" in asked.fields or "t1" in asked.fields
    if asked.fields.get("users") == "later" and not has_window and run.place.state == "complete":
        notes: list[str] = []
        counted = _counted(run, notes)
        if counted is not None:
            return _answer(asked, ChipUse(_by_counters([], counted, False), notes, counted), (0, 0), False)
    timeline = run.timeline
    window = times(asked) if has_window else (timeline.start_ps, timeline.end_ps)
    use = chip_use(run, window, not has_window)
    return _answer(asked, use._replace(notes=[*timeline.notes, *use.notes]), window, True)


def _answer(asked: WebRequest, use: ChipUse, window: tuple[int, int], has_users: bool) -> WebAnswer:
    run, (found, notes, counted) = asked.run, use
    chip, part = run.chip, asked.fields.get("part", "")
    if counted is None:
        loads = Loads(run.place.name, _links(found), {**_blocks(run, window), **_memories(found)})
    else:
        loads = Loads(run.place.name, counted.links, counted.nodes)
    why, shown = None, asked.fields.get("shown")
    if not part and not shown:
        opened = hot_part(chip, found)
        part, view, why = opened.part, opened.view, opened.why
    else:
        view = _view(shown or view_of(part))
    return json_answer(
        WebChip(
            svg=draw(chip, view, part, loads),
            view=view,
            views=[each for each in VIEWS if each != "pe" or chip.graph.pe_ids],
            part=part,
            crumbs=crumbs(chip, part),
            siblings=siblings(chip, part),
            why=why,
            t0_ps=window[0],
            t1_ps=window[1],
            parts=[_busy(each) for each in found[:_MOST]],
            more=max(len(found) - _MOST, 0),
            notes=notes,
            is_counted=counted is not None,
            has_users=has_users,
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
    """Returns how long each block of a PE was at work, by the busier of its stages."""
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
        part=part_of(each),
        share=each.share,
        nbytes=round(each.nbytes),
        users=len(each.by_pe),
        by_pe={pe: round(nbytes) for pe, nbytes in first},
    )
