"""Routes: the path of least latency, computed on demand, by a search from the source or from the destination.

The cost of a path is the latency of its links plus `node_cost_ps` of every node that it passes through. Paths of equal
cost are ordered by hops, fewest first. Paths of equal hops are ordered by their nodes, compared from the source on: the
node that was built first wins. A path passes only through nodes of the FORWARDING kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property

from kb_messages import TopologyError
from kb_topology.chip.graph import Graph, Link, Node
from kb_topology.chip.spec import FORWARDING
from kb_topology.routes.search import Interior, Route, Search
from kb_topology.routes.search_back import SearchBack
from kb_topology.text.sentences import listing


class Router:
    """Finds routes over a graph, and keeps them.

    The search for a route starts at the end that was an end of more routes so far, so the routes between one node and
    many need one search. A route of a node with only one link goes through the node at the other end of that link.
    """

    def __init__(self, graph: Graph, node_cost_ps: Callable[[Node], int] | None = None) -> None:
        """Routes over *graph*.

        *node_cost_ps* gives the picoseconds that a forwarding node adds to a path through it. They must not be negative
        and must not change; the router asks at most once for each node. Without *node_cost_ps*, only links cost.
        """
        self._graph = graph
        self._node_cost_ps = node_cost_ps
        self._routes: dict[tuple[str, str], Route] = {}
        self._searches: dict[str, Search] = {}
        self._searches_back: dict[str, SearchBack] = {}
        self._asked: Counter[str] = Counter()

    def route(self, src: str, dst: str) -> Route:
        """The route from *src* to *dst*. The route from a node to itself has no links.

        Raises TopologyError when one of the two is not a node, or when no path joins them.
        """
        route = self._routes.get((src, dst))
        if route is None:
            route = self._route(self._graph.node(src).id, self._graph.node(dst).id)
            if route is None:
                raise self._no_path(src, dst)
            self._routes[src, dst] = route
        return route

    def reachable(self, src: str) -> tuple[str, ...]:
        """The other nodes that *src* has a route to, in the order of the graph."""
        search = self._search(src)
        return tuple(node_id for node_id in self._graph.nodes if node_id != src and search.last_link(node_id))

    def _no_path(self, src: str, dst: str) -> TopologyError:
        kinds = listing(sorted(kind.value for kind in FORWARDING))
        reached = listing(self.reachable(src), limit=8)
        return TopologyError(f"{src} -> {dst}", "no path", f"links through {kinds}", f"{src} reaches: {reached}")

    def _route(self, src: str, dst: str) -> Route | None:
        first, last = self._only_links(src, dst)
        begin = src if first is None else first.dst
        end = dst if last is None else last.src
        middle = self._between(begin, end)
        if middle is None:
            return None
        nodes, links = middle.nodes, middle.links
        if first is not None:
            nodes, links = (src, *nodes), (first, *links)
        if last is not None:
            nodes, links = (*nodes, dst), (*links, last)
        return Route(nodes, links)

    def _only_links(self, src: str, dst: str) -> tuple[Link | None, Link | None]:
        """The only link from *src* and the only link to *dst*, where all routes pass through their other ends."""
        forwards = self._interior.forwards
        out, into = self._graph.out_links(src), self._graph.in_links(dst)
        last = into[0] if len(into) == 1 and src != dst and (into[0].src in forwards or into[0].src == src) else None
        end = dst if last is None else last.src
        first = out[0] if len(out) == 1 and src != end and (out[0].dst in forwards or out[0].dst == end) else None
        return first, last

    def _between(self, src: str, dst: str) -> Route | None:
        """The route from *src* to *dst*, without a search where one link is the route."""
        if src == dst:
            return Route((src,), ())
        into = self._graph.in_links(dst)
        for link in into:
            if link.src == src and (_is_shortest(link, into) or _is_shortest(link, self._graph.out_links(src))):
                return Route((src, dst), (link,))
        return self._searched(src, dst)

    def _searched(self, src: str, dst: str) -> Route | None:
        asked = self._asked
        asked[src] += 1
        asked[dst] += 1
        if asked[dst] > asked[src]:
            return self._search_back(dst).route_from(src)
        return self._search(src).route_to(dst)

    def _search(self, src: str) -> Search:
        search = self._searches.get(src)
        if search is None:
            search = self._searches[src] = Search(self._interior, self._graph.node(src).id)
        return search

    def _search_back(self, dst: str) -> SearchBack:
        search = self._searches_back.get(dst)
        if search is None:
            search = self._searches_back[dst] = SearchBack(self._interior, dst)
        return search

    @cached_property
    def _interior(self) -> Interior:
        return Interior(self._graph, self._node_cost_ps)


def _is_shortest(link: Link, others: tuple[Link, ...]) -> bool:
    """Whether no link of *others*, all from the source of *link* or all to its end, is shorter.

    Then *link* alone is the route, because any other path has one of the *others*, and more hops.
    """
    return link.latency_ps <= min([each.latency_ps for each in others])
