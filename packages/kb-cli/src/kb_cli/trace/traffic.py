"""The use of links and memories over time: as counters of a trace, and in one window by PE.

The log has the bytes and times of each DMA service, and the chip of the run has the links of its route. A counter is
the mean over windows of equal length, and the bytes of a transfer count evenly over the DMA's service. Interleaved
bytes count evenly over the slices.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import LINKS, MEMORIES
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.slices import by_number, pe_of
from kb_cli.trace.tracks import Counters, TrackPlace
from kb_cli.trace.transfers import READ, DmaFlow, Floats, flows_of
from kb_cli.trace.window import Window
from kb_dataexec import OpLog
from kb_dataexec.analysis import LazyServices
from kb_engine.engine import chip_of
from kb_engine.observe import Chip
from kb_messages import LogError
from kb_topology import Link, Topology, exact

_FEWEST, _MOST = 64, 1024
"""The fewest and most windows of a counter. Between the two, there are half as many values as records, so that most
of a file is slices."""
_DECIMALS = 3


class Resource(NamedTuple):
    """A link or a memory, and its bandwidth. A memory whose block states none has its GB/s counted."""

    place: TrackPlace
    gbs: float


def traffic(
    log: OpLog, chip: Topology, window: Window, pe: str | None, services: LazyServices | None = None
) -> Counters:
    """Returns the counters of all links and memories that a DMA used; with *pe*, of the ones that a DMA of that PE
    used.

    *services* are the services of *log*, if the caller has them. Raises LogError when *chip* lacks a DMA or a memory of
    the log, and TopologyError when a block of *chip* is not installed.
    """
    flows = list(flows_of(log, None if services is None else services().ops))
    used = used_by(flows, chip_of(chip))
    asked = [uses for flow, uses in zip(flows, used, strict=True) if pe in (None, pe_of(flow.dma))]
    shown = sorted({each for uses in asked for each in uses}, key=lambda each: by_number(each.place.title))
    edges = _edges(log, window, len(shown))
    moved = {each: np.zeros(len(edges)) for each in shown}
    for flow, uses in zip(flows, used, strict=True):
        wanted = [each for each in uses if each in moved]
        if wanted:
            until = flow.moved_until(edges)
            for each in wanted:
                moved[each] += uses[each] * until
    return _counters(shown, edges, [np.diff(moved[each]) for each in shown])


def used_by(flows: Iterable[DmaFlow], chip: Chip) -> list[dict[Resource, float]]:
    """Returns for each of *flows* its links and memories, and the share of its bytes that each of them moves.

    Raises LogError for a flow with a DMA or a memory that *chip* does not have.
    """
    topology, found = chip.topology, []
    memory_of = cache(partial(_memory, chip))
    link_of = {(link.src, link.dst): _link(link) for link in topology.graph.links}
    for flow in flows:
        if flow.dma not in topology.graph.nodes or not topology.address_map.label(flow.owner):
            where, got = f"{flow.dma}: {flow.stage}", f"a transfer with memory {flow.owner:#x}"
            raise LogError(where, got, f"a block and a memory of the chip {topology.name}")
        paths = chip.fabric.paths(flow.dma, flow.owner)
        shares = dict[Resource, float]()
        for path in paths:
            leg = path.back if flow.stage == READ else path.away
            for each in (memory_of(path.dst), *(link_of[link.src, link.dst] for link in leg.links)):
                shares[each] = shares.get(each, 0.0) + 1 / len(paths)
        found.append(shares)
    return found


def _link(link: Link) -> Resource:
    return Resource(TrackPlace(LINKS, f"{link.src} -> {link.dst}", "%"), float(link.bw_gbs))


def _memory(chip: Chip, node: str) -> Resource:
    bw_gbs: Any = getattr(chip.components[node].spec, "bw_gbs", None)
    if bw_gbs is None:
        return Resource(TrackPlace(MEMORIES, node, "GB/s"), 100.0)  # so that 100 % of it is a GB/s each
    return Resource(TrackPlace(MEMORIES, node, "%"), float(exact(bw_gbs)))


def _edges(log: OpLog, window: Window, n_counters: int) -> Ints:
    """Returns the ends of the windows over which the mean is taken."""
    ops = log.ops
    start = max(int(ops["t_start_ps"].min()), window.start_ps)
    end = min(int(ops["t_end_ps"].max()), window.end_ps)
    wanted = min(max(log.n_ops // (2 * max(n_counters, 1)), _FEWEST), _MOST)
    return np.unique(np.linspace(start, max(end, start + 1), wanted + 1).astype(np.int64))


def _counters(shown: list[Resource], edges: Ints, moved: list[Floats]) -> Counters:
    """Returns a value at each edge where the mean changes, and 0 at the last one."""
    gbs = np.array([each.gbs for each in shown]).reshape(-1, 1)
    rates = np.array(moved).reshape(len(shown), len(edges) - 1) * PS_PER_NS / np.diff(edges)
    values = np.hstack((np.round(100 * rates / gbs, _DECIMALS), np.zeros((len(shown), 1))))
    changed = np.hstack((np.ones((len(shown), 1), np.bool_), values[:, 1:] != values[:, :-1]))
    track, at = np.nonzero(changed)
    return Counters([each.place for each in shown], track, edges[at], values[track, at])


class UsedPart(NamedTuple):
    """A link or a memory in a window: the used share of its bandwidth (0 to 1), its bytes, and its bytes by PE.

    *share* is None for a memory that states no bandwidth. *ends* are the ends of a link, and empty for a memory.
    """

    title: str
    ends: tuple[str, ...]
    share: float | None
    nbytes: float
    by_pe: dict[str, float]


def used_parts(
    flows: Iterable[DmaFlow],
    chip: Chip,
    start_ps: int,
    end_ps: int,
    used: list[dict[Resource, float]] | None = None,
) -> list[UsedPart]:
    """Returns the links and memories that *flows* used between *start_ps* and *end_ps*, the most used first.

    Bytes of a service count evenly over its time. Links and memories without a byte are left out. *used* is what
    `used_by` gave for *flows*, if the caller has it.
    """
    window, listed = np.array([start_ps, end_ps]), list(flows)
    sums: dict[Resource, dict[str, float]] = {}
    for flow, uses in zip(listed, used_by(listed, chip) if used is None else used, strict=True):
        before, until = flow.moved_until(window).tolist()
        if until > before:
            who = pe_of(flow.dma) or flow.dma
            for each, share in uses.items():
                by_pe = sums.setdefault(each, {})
                by_pe[who] = by_pe.get(who, 0.0) + share * (until - before)
    found = [_part(each, by_pe, end_ps - start_ps) for each, by_pe in sums.items()]
    return sorted(found, key=lambda each: (-(each.share or 0.0), -each.nbytes, each.title))


def _part(resource: Resource, by_pe: dict[str, float], span_ps: int) -> UsedPart:
    nbytes = sum(by_pe.values())
    is_share = resource.place.unit == "%"
    share = nbytes * PS_PER_NS / span_ps / resource.gbs if is_share else None
    ends = tuple(resource.place.title.split(" -> ")) if resource.place.group == LINKS else ()
    by_bytes = dict(sorted(by_pe.items(), key=lambda each: (-each[1], each[0])))
    return UsedPart(resource.place.title, ends, share, nbytes, by_bytes)
