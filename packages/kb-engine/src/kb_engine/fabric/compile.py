"""PathCompiler: compiles the legs and paths that transfers take, and finds the links on which flows meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import ForwardingComponent, Initiator, MemoryComponent, TransferSource
from kb_engine.fabric.link import LinkState
from kb_engine.fabric.lookahead import Lookahead
from kb_engine.fabric.memory_requests import MemoryRequests
from kb_engine.fabric.paths import Hop, Leg, MemoryPath
from kb_engine.fabric.shared_link import SharedLink
from kb_engine.fabric.stream import Passage
from kb_engine.timing.clock import Clock
from kb_messages import TopologyError
from kb_topology import FORWARDING, Graph, Link, Route, Router

_NONE: Final[Set[str]] = frozenset()


class PathCompiler:
    """The ways over one chip. Shared links call *deliver* with a transfer that has reached the end of its leg."""

    def __init__(
        self,
        clock: Clock,
        graph: Graph,
        components: Mapping[str, ComponentBase[Any]],
        deliver: Callable[[Any], None],
    ) -> None:
        self.links = {(link.src, link.dst): LinkState(link) for link in graph.links}
        self.legs: dict[tuple[str, str, bool], Leg] = {}
        self._clock = clock
        self._graph = graph
        self._components = components
        self._deliver: Callable[[Passage], None] = deliver
        self._overheads: dict[str, int] = {}
        self._initiators = _of_role(components, Initiator)
        self._one_at_a_time = {node_id for node_id, block in self._initiators.items() if block.outstanding == 1}
        self._memories = _of_role(components, MemoryComponent)
        self._requests = {node_id: MemoryRequests() for node_id in self._memories}
        leads = {node_id: block.lead_ps for node_id, block in _of_role(components, TransferSource).items()}
        self._lookahead = Lookahead(graph, leads, self.overhead_ps)
        self._router = Router(graph, lambda node: self.overhead_ps(node.id))
        self._shared_links: dict[tuple[str, str], SharedLink] = {}

    def ignore_leads(self) -> None:
        """Turn lookahead off for paths that are compiled later."""
        self._lookahead = Lookahead(self._graph, {}, self.overhead_ps)

    def forget_ops(self) -> None:
        """Another op log begins, which has none of the ops so far."""
        for leg in self.legs.values():
            leg.forget_ops()
        for requests in self._requests.values():
            requests.forget_ops()

    def overhead_ps(self, node_id: str) -> int:
        """Picoseconds that the head of a transfer takes to pass *node_id*; 0 for a node that forwards nothing."""
        known = self._overheads.get(node_id)
        if known is None:
            component = self._components[node_id]
            known = component.overhead_ps() if isinstance(component, ForwardingComponent) else 0
            self._overheads[node_id] = known
        return known

    def route(self, src: str, dst: str) -> Route:
        """The nodes and links from *src* to *dst*. Raises TopologyError when no links lead there."""
        return self._router.route(src, dst)

    def leg(self, src: str, dst: str, at_once: bool = False) -> Leg:
        """The leg from *src* to *dst*. Raises TopologyError when no links lead there.

        With *at_once*, it is for transfers that go together: a block at one of its ends has several of them under way.
        """
        leg = self.legs.get((src, dst, at_once))
        if leg is None:
            leg = Leg(self._hops(self.route(src, dst).links, _NONE if at_once else self._one_at_a_time))
            self.legs[src, dst, at_once] = leg
        return leg

    def path(self, src: str, dst: str, at_once: bool = False) -> MemoryPath:
        """A new path from *src* to the memory *dst*. Raises TopologyError when there is no memory, or no way.

        With *at_once*, requests over this path go together with others of *src*.
        """
        memory = self._memories.get(dst)
        if memory is None:
            found = type(self._components[dst]).__name__
            raise TopologyError(f"{src} -> {dst}", f"a {found}, which takes no requests", "a MemoryComponent")
        nodes = self._graph.nodes
        if nodes[dst].pe_id is not None and nodes[dst].pe_id == nodes[src].pe_id:
            away = back = self.legs[src, dst, at_once] = Leg([])
        else:
            away, back = self.leg(src, dst, at_once), self.leg(dst, src, at_once)
        nearest_ps = self._lookahead.nearest_ps(dst)
        return MemoryPath(src, dst, memory, self._requests[dst], away, back, nearest_ps)

    def _hops(self, links: tuple[Link, ...], alone: Set[str]) -> list[Hop]:
        """The hops over *links*. The blocks *alone* have one transfer of a kind under way at a time."""
        hops: list[Hop] = []
        for link in links:
            after_ps = link.latency_ps + self.overhead_ps(link.dst)
            hops.append(Hop(self.links[link.src, link.dst], after_ps, self._shared_link(link, hops, alone)))
        return hops

    def _shared_link(self, link: Link, before: list[Hop], alone: Set[str]) -> SharedLink | None:
        """The shared link of *link*, or None where flows cannot meet or never queue.

        A link after which flows go on more slowly than they came is shared too. Flows that leave a link within its
        bandwidth do not queue at the next one.
        """
        if not self._merges(link, alone) and not self._narrows(link, before, alone):
            return None
        key = link.src, link.dst
        shared = self._shared_links.get(key)
        if shared is None:
            shared = self._shared_links[key] = SharedLink(self._clock, self.links[key].rate, self._deliver)
        return shared

    def _narrows(self, link: Link, before: list[Hop], alone: Set[str]) -> bool:
        """Whether two flows can queue at *link*, because their bytes come faster than they leave.

        Flows that catch up leave the last shared link at up to its bandwidth, and the links between the two hold them
        back. Without a shared link before, the flows come from one source, and only a memory begins a transfer before
        the last one is at its end.
        """
        last = max((number for number, hop in enumerate(before) if hop.shared is not None), default=-1)
        if last < 0 and (not before or before[0].state.link.src in alone or link.dst in alone):
            return False
        return link.bw_gbs < min(hop.state.link.bw_gbs for hop in before[max(last, 0) :])

    def _merges(self, link: Link, alone: Set[str]) -> bool:
        """Whether two flows can want *link* at once.

        Most memories send the data of one request after the other, and so does an initiator with one read and one write
        at a time. Any other node may send and receive several transfers, and several links may feed a node that
        forwards.
        """
        nodes = self._graph.nodes
        if nodes[link.src].kind not in FORWARDING:
            memory = self._memories.get(link.src)
            return not memory.sends_in_order if memory is not None else link.src not in alone
        if link.dst in self._initiators:
            return link.dst not in alone
        to_memory = nodes[link.dst].memory is not None
        feeders = [
            feeder
            for feeder in self._graph.in_links(link.src)
            if feeder.src != link.dst and not (to_memory and nodes[feeder.src].memory is not None)
        ]
        return len(feeders) > 1


def _of_role(components: Mapping[str, ComponentBase[Any]], role: type[Any]) -> dict[str, Any]:
    """The blocks that have *role*, by node id. Each type is asked once, because `issubclass` of an ABC is slow."""
    types = {kind for kind in set(map(type, components.values())) if issubclass(kind, role)}
    return {node_id: block for node_id, block in components.items() if type(block) in types}
