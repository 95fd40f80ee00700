"""The search behind routes: Dijkstra's algorithm over the forwarding nodes, no further than a request needs.

Most nodes are only ends of routes, so the search leaves them out. The last link to an end is decided on request, from
the forwarding nodes before the end. A search stops as soon as no undecided node can change the answer, and continues
from there on the next request.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from msgspec import Struct

from kb_topology.chip.graph import Graph, Link, Node

Label = tuple[int, int]
"""Cost in picoseconds, then hops. Labels grow with every link, so all nodes before a node are decided before it."""


class Route(Struct, frozen=True, gc=False):
    """The nodes from source to destination, both included, and the links between them."""

    nodes: tuple[str, ...]
    links: tuple[Link, ...]


class Interior:
    """The part that all searches over a graph share: forwarding nodes, the links between them, and the cost to pass."""

    def __init__(self, graph: Graph, node_cost_ps: Callable[[Node], int] | None) -> None:
        self.graph = graph
        self.order = {node_id: number for number, node_id in enumerate(graph.nodes)}
        self.forwards = graph.forwarding
        self._onward: dict[str, list[tuple[str, int, Link]]] = {}
        self._feeders: dict[str, list[Link]] = {}
        self._costs: dict[str, int] = {}
        self._node_cost_ps = node_cost_ps

    def onward(self, node_id: str) -> list[tuple[str, int, Link]]:
        """Returns (node, latency in ps, link) for every link from *node_id* to a forwarding node."""
        found = self._onward.get(node_id)
        if found is None:
            links = (link for link in self.graph.out_links(node_id) if link.dst in self.forwards)
            found = self._onward[node_id] = [(link.dst, link.latency_ps, link) for link in links]
        return found

    def feeders(self, node_id: str) -> list[Link]:
        """The links to *node_id* from forwarding nodes."""
        found = self._feeders.get(node_id)
        if found is None:
            found = [link for link in self.graph.in_links(node_id) if link.src in self.forwards]
            self._feeders[node_id] = found
        return found

    def cost_ps(self, node_id: str) -> int:
        """Picoseconds to pass through *node_id*. Raises ValueError when *node_cost_ps* gives a negative number."""
        cost = self._costs.get(node_id)
        if cost is None:
            cost = self._node_cost_ps(self.graph.nodes[node_id]) if self._node_cost_ps else 0
            if cost < 0:
                raise ValueError(f"node_cost_ps({node_id}): got {cost}, needs at least 0")
            self._costs[node_id] = cost
        return cost


class Search:
    """The routes from one source, as far as callers asked for them."""

    def __init__(self, interior: Interior, src: str) -> None:
        self._interior = interior
        self._src = src
        self._best: dict[str, Label] = {src: (0, 0)}
        self._last: dict[str, Link] = {}
        """The last link of the best path so far to every forwarding node."""
        self._left: dict[str, Label] = {}
        """The decided nodes, each with its label plus the cost to pass through it."""
        self._heap = [(0, 0, src)]
        self._direct = {link.dst: link for link in interior.graph.out_links(src)}
        self._routes = {src: Route((src,), ())}

    def route_to(self, dst: str) -> Route | None:
        """The route to *dst*, or None. Routes are kept, so routes with a common beginning compute it once."""
        route = self._routes.get(dst)
        if route is None:
            link = self.last_link(dst)
            before = self.route_to(link.src) if link else None
            if link is None or before is None:
                return None
            route = self._routes[dst] = Route((*before.nodes, dst), (*before.links, link))
        return route

    def last_link(self, dst: str) -> Link | None:
        """The last link of the route to *dst*, which is not the source, or None when there is no route."""
        if dst not in self._interior.forwards:
            return self._last_link_to_end(dst)
        while dst not in self._left and self._heap:
            self._step()
        return self._last.get(dst)

    def _last_link_to_end(self, dst: str) -> Link | None:
        chosen = self._direct.get(dst)
        best = (chosen.latency_ps, 1) if chosen else None
        for link in self._interior.feeders(dst):
            # Undecided nodes farther than the best path so far cannot give a better one.
            while link.src not in self._left and self._heap and (best is None or self._heap[0][:2] < best):
                self._step()
            left = self._left.get(link.src)
            if left is not None and link is not chosen:
                label = left[0] + link.latency_ps, left[1] + 1
                if best is None or chosen is None or label < best or (label == best and self._before(link, chosen)):
                    best, chosen = label, link
        return chosen

    def _step(self) -> None:
        """Decides the nearest undecided node and follows its links."""
        cost, hops, here = heappop(self._heap)
        if here in self._left:
            return
        leaving = cost if here == self._src else cost + self._interior.cost_ps(here)
        self._left[here] = leaving, hops
        best, heap, after = self._best, self._heap, hops + 1
        for dst, latency_ps, link in self._interior.onward(here):
            label = (leaving + latency_ps, after)
            known = best.get(dst)
            if known is None or label < known:
                best[dst] = label
                self._last[dst] = link
                heappush(heap, (*label, dst))
            # A tie: the path whose nodes were built first stays, so routes do not depend on the order of the search.
            elif label == known and self._before(link, self._last[dst]):
                self._last[dst] = link

    def _before(self, link: Link, other: Link) -> bool:
        """Whether the path that ends with *link* comes before the path that ends with *other*.

        At the node where the two paths part, the path whose next node was built first comes first. Both paths have the
        same number of hops, and all their nodes except the last are decided.
        """
        order, last = self._interior.order, self._last
        a, b, earlier = link.src, other.src, False
        while a != b:
            earlier = order[a] < order[b]
            a, b = last[a].src, last[b].src
        return earlier
