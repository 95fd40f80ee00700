"""The search behind routes to one node: the same search as in `search`, from the destination backwards.

Many nodes ask for the way to one memory, and one search from the memory answers all of them. Of equal paths the path
whose first node was built first wins, so the node where two paths part decides at once.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kb_topology.chip.graph import Link
from kb_topology.routes.search import Interior, Label, Route


class SearchBack:
    """The routes to one destination, as far as callers asked for them."""

    def __init__(self, interior: Interior, dst: str) -> None:
        self._interior = interior
        self._dst = dst
        self._best: dict[str, Label] = {dst: (0, 0)}
        """The label of every forwarding node, without the cost to pass through the node itself."""
        self._first: dict[str, Link] = {}
        """The first link of the best path so far from every forwarding node."""
        self._heap = [(0, 0, dst)]
        self._routes = {dst: Route((dst,), ())}

    def route_from(self, src: str) -> Route | None:
        """The route from *src*, or None. Routes are kept, so routes with a common end compute it once."""
        route = self._routes.get(src)
        if route is None:
            link = self._first_link(src)
            behind = self.route_from(link.dst) if link else None
            if link is None or behind is None:
                return None
            route = self._routes[src] = Route((src, *behind.nodes), (link, *behind.links))
        return route

    def _first_link(self, src: str) -> Link | None:
        if src in self._interior.forwards:
            return self._first.get(src) if self._decide(src, None) else None
        chosen, best = None, None
        for link in self._interior.graph.out_links(src):
            if not self._decide(link.dst, best):
                continue
            cost, hops = self._entering(link.dst)
            label = cost + link.latency_ps, hops + 1
            if best is None or chosen is None or label < best or (label == best and self._before(link, chosen)):
                best, chosen = label, link
        return chosen

    def _decide(self, node_id: str, best: Label | None) -> bool:
        """Whether a path leads from *node_id* to the destination.

        Paths that cannot be better than *best* are not followed.
        """
        if node_id != self._dst and node_id not in self._interior.forwards:
            return False
        known, heap = self._best, self._heap
        while heap and (best is None or heap[0][:2] < best):
            if node_id in known and known[node_id] <= heap[0][:2]:
                break
            self._step()
        return node_id in known

    def _entering(self, node_id: str) -> Label:
        """The label of *node_id* with the cost to pass through it."""
        cost, hops = self._best[node_id]
        return (cost if node_id == self._dst else cost + self._interior.cost_ps(node_id)), hops

    def _step(self) -> None:
        """Decides the undecided node that is nearest to the destination and follows its links backwards."""
        cost, hops, here = heappop(self._heap)
        best, heap = self._best, self._heap
        if best[here] != (cost, hops):
            return
        entering, after = self._entering(here)[0], hops + 1
        for link in self._interior.feeders(here):
            src = link.src
            label = entering + link.latency_ps, after
            known = best.get(src)
            if known is None or label < known:
                best[src] = label
                self._first[src] = link
                heappush(heap, (*label, src))
            elif label == known and self._before(link, self._first[src]):
                self._first[src] = link

    def _before(self, link: Link, other: Link) -> bool:
        return self._interior.order[link.dst] < self._interior.order[other.dst]
