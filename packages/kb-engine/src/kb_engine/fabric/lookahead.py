"""How soon a request that is not under way yet can be at a memory: until then, what is there is known.

This is the lookahead of conservative parallel simulation (Chandy and Misra, CACM 24 (4), 1981). Here it saves events: a
request that nothing can overtake need not be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from heapq import heappop, heappush

from kb_topology import FORWARDING, Graph


class Lookahead:
    """How near the nearest block that reads and writes is, for each memory."""

    def __init__(self, graph: Graph, leads_ps: Mapping[str, int], overhead_ps: Callable[[str], int]) -> None:
        """*leads_ps* are the nodes of the blocks that read and write, and how soon a request leaves each."""
        self._graph = graph
        self._leads_ps = leads_ps
        self._overhead_ps = overhead_ps

    def nearest_ps(self, memory: str) -> int:
        """From a call of the fabric by any block until its request is at *memory*, at least; -1 if none gets there."""
        graph, leads, leaving = self._graph, self._leads_ps, self._leaving_ps
        found = []
        for link in graph.in_links(memory):
            before = leads.get(link.src, leaving.get(link.src))
            if before is not None:
                found.append(before + link.latency_ps)
        pe_id = graph.nodes[memory].pe_id
        if pe_id is not None:
            found += (leads[node.id] for node in graph.pe_nodes(pe_id) if node.id in leads)
        return min(found, default=-1)

    @cached_property
    def _leaving_ps(self) -> dict[str, int]:
        """The nodes that forward, and how soon a request that began anywhere can leave them: Dijkstra's search."""
        graph = self._graph
        forwards = {node.id: self._overhead_ps(node.id) for node in graph.nodes.values() if node.kind in FORWARDING}
        leaving: dict[str, int] = {}
        heap = sorted((lead, node_id) for node_id, lead in self._leads_ps.items())
        while heap:
            cost, here = heappop(heap)
            if here in leaving:
                continue
            if here in forwards:
                leaving[here] = cost
            for link in graph.out_links(here):
                overhead = forwards.get(link.dst)
                if overhead is not None and link.dst not in leaving:
                    heappush(heap, (cost + link.latency_ps + overhead, link.dst))
        return leaving
