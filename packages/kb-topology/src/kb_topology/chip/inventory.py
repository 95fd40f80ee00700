"""The inventory of a chip: nodes by kind, and links by the kinds of nodes that they join."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from kb_topology.chip.graph import Graph


class LinkGroup(Struct, frozen=True, kw_only=True):
    """`links` equal links between nodes of kind *a* and nodes of kind *b*.

    With `both_ways`, a link and the link back count as one. `bw_gbs` is the bandwidth of one link in one direction,
    `total_gbs` the bandwidth of all links in one direction. `latency_ps` is the travel time along the wire.
    """

    a: str
    b: str
    both_ways: bool
    links: int
    bw_gbs: float
    total_gbs: float
    length_mm: float
    latency_ps: int


def count_kinds(graph: Graph) -> dict[str, int]:
    """The number of nodes of each kind, in the order of *graph*."""
    return dict(Counter(node.kind.value for node in graph.nodes.values()))


def link_groups(graph: Graph) -> list[LinkGroup]:
    """The links of *graph*, grouped by the kinds that they join and by their numbers, in order of occurrence."""
    nodes = graph.nodes
    links = {(link.src, link.dst): link for link in graph.links}
    groups: Counter[tuple[str, str, bool, float, float, int]] = Counter()
    for (src, dst), link in links.items():
        numbers = float(link.bw_gbs), float(link.length_mm), link.latency_ps
        back = links.get((dst, src))
        both_ways = back is not None and (back.bw_gbs, back.latency_ps) == (link.bw_gbs, link.latency_ps)
        a, b = nodes[src].kind.value, nodes[dst].kind.value
        if both_ways and (b, a, True, *numbers) in groups:
            a, b = b, a
        groups[a, b, both_ways, *numbers] += 1
    return [
        LinkGroup(
            a=a,
            b=b,
            both_ways=both_ways,
            links=(count := total // 2 if both_ways else total),
            bw_gbs=bw_gbs,
            total_gbs=count * bw_gbs,
            length_mm=length_mm,
            latency_ps=latency_ps,
        )
        for (a, b, both_ways, bw_gbs, length_mm, latency_ps), total in groups.items()
    ]
