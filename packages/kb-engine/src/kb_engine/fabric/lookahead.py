"""Lookahead: the least time in which a request that has not started yet can reach a memory.

Until then the fabric knows all requests that the memory will see. This is the lookahead of conservative parallel
simulation (Chandy and Misra, CACM 24 (4), 1981). Here it saves events: a request that no other request can overtake is
reserved at its memory when it starts, and its arrival is no event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from heapq import heappop, heappush

from kb_topology import Graph


class Lookahead:
    """For each memory, the shortest time in which a request of any transfer source can reach the memory."""

    def __init__(self, graph: Graph, leads_ps: Mapping[str, int], overhead_ps: Callable[[str], int]) -> None:
        """*leads_ps* holds the lead of every transfer source, by node id; *overhead_ps* is the fabric's."""
        self._graph = graph
        self._leads_ps = leads_ps
        self._overhead_ps = overhead_ps

    def nearest_ps(self, memory: str) -> int:
        """The least number of picoseconds from a call of the fabric, by any block, until its request is at *memory*.

        -1 if no request can reach *memory*.
        """
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
        """For each forwarding node, the soonest time at which a request of any source leaves it: Dijkstra's search."""
        graph = self._graph
        forwards = {node_id: self._overhead_ps(node_id) for node_id in graph.forwarding}
        leaving: dict[str, int] = {}
        nearest = dict(self._leads_ps)
        heap = sorted((lead, node_id) for node_id, lead in self._leads_ps.items())
        while heap:
            cost, here = heappop(heap)
            if here in leaving:
                continue
            if here in forwards:
                leaving[here] = cost
            for link in graph.out_links(here):
                overhead = forwards.get(link.dst)
                if overhead is not None:
                    after = cost + link.latency_ps + overhead
                    known = nearest.get(link.dst)
                    if known is None or after < known:
                        nearest[link.dst] = after
                        heappush(heap, (after, link.dst))
        return leaving
