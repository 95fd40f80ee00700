"""Sets of levers that may gain only together: parts next to each other on the way of bytes, and pairs of busy parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from kb_cli.whatif.bound import BusyPart, limits_of
from kb_cli.whatif.chip_levers import LINKS, ChipLever
from kb_cli.whatif.link_kinds import kind_of_link
from kb_topology import Topology

BUSY = 0.6
"""The smallest share of the time for which a busy block bounds a run. Source: assumed."""
_DMA: Final = "pe_dma"
_DMA_PORT: Final = ("dma_bw_gbs", "bw_gbs")
"""The bandwidths of a TCM that its DMA port may have; the first one that the file states counts."""


def lever_sets(
    levers: Sequence[ChipLever], busy: Sequence[BusyPart], latency_ps: int, topology: Topology
) -> list[tuple[ChipLever, ...]]:
    """Returns sets of two or more of *levers* to pull together, each set once, without saying which of them gain.

    Bytes pass a memory, links, and the DMA port of a TCM. A faster part gains nothing where the next part is as slow,
    so parts next to each other on the way form sets. The parts of a way that are busy for most of the time form a set
    with another such part, too.
    """
    found: dict[frozenset[int], tuple[ChipLever, ...]] = {}
    for each in (*_of_ways(levers, busy, latency_ps, topology), *_of_busy(levers, busy, latency_ps, topology)):
        found.setdefault(frozenset(map(id, each)), each)
    return list(found.values())


def _of_ways(
    levers: Sequence[ChipLever], busy: Sequence[BusyPart], latency_ps: int, topology: Topology
) -> Iterator[tuple[ChipLever, ...]]:
    full = [each.part for each in busy if each.block == LINKS and each.ps >= BUSY * latency_ps]
    ports = [each for field in _DMA_PORT for each in levers if (each.block, each.field) == ("pe_tcm", field)][:1]
    for memory, names in _ways(levers, busy, topology):
        links = [each for each in map(_links(levers).get, dict.fromkeys((*names, *full))) if each is not None]
        way = [memory, *links, *ports]
        for length in range(2, len(way) + 1):
            for first in range(len(way) - length + 1):
                yield tuple(way[first : first + length])


def _ways(
    levers: Sequence[ChipLever], busy: Sequence[BusyPart], topology: Topology
) -> Iterator[tuple[ChipLever, list[str]]]:
    """Yields each rate of a memory that worked, with the kinds of links from there to the nearest DMA."""
    for memory in (each for each in levers if each.lever.better == "twice" and each.block != "pe_tcm"):
        node = next((each.node for each in busy if each.block == memory.block and each.ps), "")
        if node in topology.graph.nodes and topology.graph.nodes[node].memory is not None:
            yield memory, way_to_dma(topology, node)


def _links(levers: Sequence[ChipLever]) -> dict[str, ChipLever]:
    return {each.part: each for each in levers if each.block == LINKS and each.lever.better == "twice"}


def way_to_dma(topology: Topology, node: str) -> list[str]:
    """Returns the kinds of links from *node* to the nearest DMA, by name, in their order; none where no way leads
    there.
    """
    graph = topology.graph
    before: dict[str, tuple[str, str]] = {}
    queue = deque([node])
    while queue:
        here = queue.popleft()
        if graph.nodes[here].kind.value == _DMA:
            names = []
            while here != node:
                name, here = before[here]
                names.append(name)
            return list(dict.fromkeys(reversed(names)))
        for link in graph.out_links(here):
            if link.dst != node and link.dst not in before:
                before[link.dst] = kind_of_link(topology, link).name, here
                queue.append(link.dst)
    return []


def _of_busy(
    levers: Sequence[ChipLever], busy: Sequence[BusyPart], latency_ps: int, topology: Topology
) -> Iterator[tuple[ChipLever, ...]]:
    full = [each for each in limits_of(busy, topology) if each.ps >= BUSY * latency_ps]
    names = {each.part for each in full}
    links = {name: link for name, link in _links(levers).items() if name in names}
    groups = [
        (memory, *(links[name] for name in way if name in links))
        for memory, way in _ways(levers, busy, topology)
        if memory.part in names
    ]
    grouped = {id(each) for group in groups for each in group}
    alone = [each for each in (_lever_of(part, levers) for part in full) if each is not None]
    groups += [(each,) for each in alone if id(each) not in grouped]
    for one, other in combinations(groups, 2):
        yield (*one, *other)


def _lever_of(part: BusyPart, levers: Iterable[ChipLever]) -> ChipLever | None:
    """Returns the first lever that makes *part* faster by a rate."""
    own = (each for each in levers if each.block == part.block and each.lever.better == "twice")
    return next((each for each in own if each.block != LINKS or each.part == part.part), None)
