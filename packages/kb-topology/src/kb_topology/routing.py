"""Routes: the path of least latency, computed per source on demand.

The cost of a path is the latency of its links plus `node_cost_ps` of every node that it passes through. Paths of equal
cost are ordered by hops, fewest first. Paths of equal hops are ordered by their nodes, compared from the source on: the
node that was built first wins. A path passes only through nodes of the FORWARDING kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kb_messages import TopologyError
from kb_topology.graph import Graph, Node
from kb_topology.search import Interior, Route, Search
from kb_topology.sentences import listing
from kb_topology.spec import FORWARDING


class Router:
    """Routes over a graph."""

    def __init__(self, graph: Graph, node_cost_ps: Callable[[Node], int] | None = None) -> None:
        """Routes over *graph*.

        *node_cost_ps* gives the picoseconds that a forwarding node adds to a path through it. They must not be negative
        and must not change; the router asks at most once for each node. Without *node_cost_ps*, only links cost.
        """
        self._graph = graph
        self._node_cost_ps = node_cost_ps
        self._searches: dict[str, Search] = {}

    def route(self, src: str, dst: str) -> Route:
        """The route from *src* to *dst*. The route from a node to itself has no links.

        Raises TopologyError when one of the two is not a node, or when no path joins them.
        """
        route = self._search(src).route_to(self._graph.node(dst).id)
        if route is None:
            raise self._no_path(src, dst)
        return route

    def reachable(self, src: str) -> tuple[str, ...]:
        """The other nodes that *src* has a route to, in the order of the graph."""
        search = self._search(src)
        return tuple(node_id for node_id in self._graph.nodes if node_id != src and search.last_link(node_id))

    def _no_path(self, src: str, dst: str) -> TopologyError:
        kinds = listing(sorted(kind.value for kind in FORWARDING))
        reached = listing(self.reachable(src), limit=8)
        return TopologyError(f"{src} -> {dst}", "no path", f"links through {kinds}", f"{src} reaches: {reached}")

    def _search(self, src: str) -> Search:
        search = self._searches.get(src)
        if search is None:
            search = self._searches[src] = Search(self._interior, self._graph.node(src).id)
        return search

    @cached_property
    def _interior(self) -> Interior:
        return Interior(self._graph, self._node_cost_ps)
