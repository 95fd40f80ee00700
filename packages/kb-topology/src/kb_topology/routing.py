"""Routes: the path of least latency, computed per source on demand.

The cost of a path is the latency of its links plus `node_cost_ps` of every node it passes through. Of paths that cost
the same, the one of fewer hops is taken; of those, the one whose nodes were built first, compared node by node from
the source on. Only nodes of the FORWARDING kinds are passed through.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import groupby

from msgspec import Struct

from kb_messages.errors import TopologyError
from kb_topology.graph import Graph, Link, Node
from kb_topology.sentences import listing
from kb_topology.spec import FORWARDING

_Label = tuple[int, int]
"""Cost in picoseconds, then hops."""


class Route(Struct, frozen=True):
    """The nodes from source to destination, both included, and the links between them: one fewer."""

    nodes: tuple[str, ...]
    links: tuple[Link, ...]


class Router:
    """Routes over a graph."""

    def __init__(self, graph: Graph, node_cost_ps: Callable[[Node], int] | None = None) -> None:
        """Route over *graph*.

        *node_cost_ps* gives the picoseconds that a forwarding node adds when it is passed through; it must not be
        negative, and it is asked once a node and source. Without it, only links cost.
        """
        self._graph = graph
        self._node_cost_ps = node_cost_ps
        self._order = {node_id: index for index, node_id in enumerate(graph.nodes)}
        self._last_links: dict[str, dict[str, Link]] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    def route(self, src: str, dst: str) -> Route:
        """The route from *src* to *dst*; from a node to itself, it has no links.

        Raises TopologyError when one of the two is not a node, or when no path joins them.
        """
        route = self._routes.get((src, dst))
        if route is None:
            route = self._routes[src, dst] = self._find(src, dst)
        return route

    def reachable(self, src: str) -> tuple[str, ...]:
        """The nodes that *src* has a route to, without itself, in the order of the graph."""
        return tuple(sorted(self._tree(src), key=self._order.__getitem__))

    def _find(self, src: str, dst: str) -> Route:
        self._graph.node(dst)
        last_links = self._tree(src)
        if src != dst and dst not in last_links:
            raise self._no_path(src, dst)
        links = _walk_back(last_links, src, dst)
        return Route((src, *(link.dst for link in links)), tuple(links))

    def _no_path(self, src: str, dst: str) -> TopologyError:
        kinds = listing(sorted(kind.value for kind in FORWARDING))
        reached = listing(self.reachable(src), limit=8)
        return TopologyError(f"{src} -> {dst}", "no path", f"links through {kinds}", f"{src} reaches: {reached}")

    def _tree(self, src: str) -> dict[str, Link]:
        """The last link of the route from *src* to every node it reaches."""
        if src not in self._last_links:
            self._last_links[src] = self._dijkstra(self._graph.node(src).id)
        return self._last_links[src]

    def _dijkstra(self, src: str) -> dict[str, Link]:
        best: dict[str, _Label] = {src: (0, 0)}
        candidates: dict[str, list[Link]] = {}
        heap = [(0, 0, src)]
        while heap:
            cost, hops, here = heapq.heappop(heap)
            if best[here] < (cost, hops):
                continue
            leaving_cost = self._leaving_cost(here, src)
            if leaving_cost is None:
                continue
            for link in self._graph.out_links(here):
                label = (cost + leaving_cost + link.latency_ps, hops + 1)
                known = best.get(link.dst)
                if known is None or label < known:
                    best[link.dst] = label
                    candidates[link.dst] = [link]
                    heapq.heappush(heap, (*label, link.dst))
                elif label == known:
                    candidates[link.dst].append(link)
        return self._first_built(best, candidates)

    def _first_built(self, best: dict[str, _Label], candidates: dict[str, list[Link]]) -> dict[str, Link]:
        """The candidate on the path whose nodes were built first, for every node.

        Paths of as many hops are ranked by the rank of what comes before their last node, then by that node, which is
        their order node by node. So hop by hop, each node's candidates are told apart by the rank of their source.
        """
        last_links: dict[str, Link] = {}
        ranks: dict[str, int] = {}
        by_hops = sorted(best, key=lambda node_id: best[node_id][1])
        for _, level in groupby(by_hops, key=lambda node_id: best[node_id][1]):
            keys = []
            for node_id in level:
                if node_id in candidates:
                    last_links[node_id] = min(candidates[node_id], key=lambda link: ranks[link.src])
                before = ranks[last_links[node_id].src] if node_id in last_links else 0
                keys.append((before, self._order[node_id], node_id))
            ranks.update({node_id: rank for rank, (_, _, node_id) in enumerate(sorted(keys))})
        return last_links

    def _leaving_cost(self, here: str, src: str) -> int | None:
        """What it costs to go on from *here*; None where a route may not pass."""
        if here == src:
            return 0
        node = self._graph.nodes[here]
        if node.kind not in FORWARDING:
            return None
        cost = self._node_cost_ps(node) if self._node_cost_ps else 0
        if cost < 0:
            raise ValueError(f"node_cost_ps({here}) is {cost}, needs >= 0")
        return cost


def _walk_back(last_links: dict[str, Link], src: str, dst: str) -> list[Link]:
    links = []
    while dst != src:
        link = last_links[dst]
        links.append(link)
        dst = link.src
    return links[::-1]
