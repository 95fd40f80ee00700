"""How much of their bandwidth links and memories used: in a whole run as it counted, in a window as its log tells."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UnsetType

from kb_cli.run.run_loads import counted_loads
from kb_cli.trace.transfers import flows_of
from kb_cli.trace.window_loads import UsedPart, used_parts
from kb_cli.web.opened_run import OpenedRun
from kb_engine.engine import chip_of
from kb_engine.observe import Chip
from kb_messages import KbError
from kb_topology.diagram import LinkLoad, Loads, NodeLoad, percent


class ChipUse(NamedTuple):
    """The used links and memories, the most used first, what a reader has to know, and the run's counters if used."""

    parts: list[UsedPart]
    notes: list[str]
    counted: Loads | None


def chip_use(run: OpenedRun, window: tuple[int, int], is_whole: bool) -> ChipUse:
    """The use of the chip of *run*: with *is_whole*, by the counters of a run that ended, otherwise by its log."""
    notes: list[str] = []
    counted = _counted(run, notes) if is_whole and run.place.state == "complete" else None
    chip, logged = None, list[UsedPart]()
    try:
        chip = chip_of(run.chip)
        logged = used_parts(flows_of(run.timeline.log), chip, *window)
    except KbError as error:  # a chip whose blocks are not installed here
        what = "use of links and memories" if counted is None else "PEs that used links and memories"
        notes.append(f"{run.place.name}: got no {what}: {error}")
    is_shared = chip is not None and _shares_reads(chip)
    if counted is not None:
        return ChipUse(_by_counters(logged, counted, is_shared), notes, counted)
    return ChipUse(logged, notes + _doubts(logged, is_shared), None)


def _counted(run: OpenedRun, notes: list[str]) -> Loads | None:
    try:
        return counted_loads(run.place.path, run.source.run, run.chip.graph)
    except KbError as error:
        notes.append(f"{error}; shares are those of the log")
        return None


def _by_counters(logged: list[UsedPart], counted: Loads, is_shared: bool) -> list[UsedPart]:
    """The parts with the shares and bytes of *counted*; memories that count no bytes keep those of the log, but no
    share if reads are shared."""
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
    """Why shares and bytes of the log may be more than links and memories moved."""
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
