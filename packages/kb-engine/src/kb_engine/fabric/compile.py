"""PathCompiler: compiles the legs and paths that transfers take, and finds the links on which flows meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import ForwardingComponent, Initiator, MemoryComponent, TransferSource
from kb_engine.block.state_visitor import PART, State, Stateful, each_value
from kb_engine.fabric.incoming_write import MemoryRequests
from kb_engine.fabric.link import LinkState
from kb_engine.fabric.lookahead import Lookahead
from kb_engine.fabric.paths import Hop, Leg, MemoryPath, OnLinks
from kb_engine.fabric.sharing.shared_link import SharedLink
from kb_engine.fabric.sharing.stream import Passage
from kb_engine.timing.clock import Clock
from kb_engine.timing.interning import interned
from kb_engine.timing.units import Width
from kb_messages import TopologyError
from kb_topology import Graph, Link, Route, Router

_NONE: Final[Set[str]] = frozenset()

_NO_WIDTH: Final[Width] = (0.0, Fraction(0))

_ALONE, _SHARED, _NARROWS, _KINDS = range(4)

HopsOver: TypeAlias = list[Hop | None]
"""The hops over one link: a private, a shared and a narrowing one. None stands for a hop that is not needed so far."""


class WayLink(NamedTuple):
    """The data that all ways over one link share. `merges` says whether two flows can want the link at once."""

    state: LinkState
    merges: bool
    width: Width
    hops: HopsOver


class _Overheads(dict[str, int]):
    """Picoseconds that the head of a transfer takes to pass each node; 0 for a node that forwards nothing."""

    def __init__(self, components: Mapping[str, ComponentBase[Any]]) -> None:
        super().__init__()
        self._components = components
        self._forwards: dict[type[Any], bool] = {}

    def __missing__(self, node_id: str) -> int:
        component: Any = self._components[node_id]
        kind = type(component)
        forwards = self._forwards.get(kind)
        if forwards is None:
            forwards = self._forwards[kind] = issubclass(kind, ForwardingComponent)
        self[node_id] = found = component.overhead_ps() if forwards else 0
        return found


class PathCompiler(Stateful):
    """The ways over one chip. Shared links call *deliver* with a transfer that has reached the end of its leg."""

    state: ClassVar[State] = {"legs": each_value(PART), "_requests": each_value(PART)}

    def __init__(
        self,
        clock: Clock,
        graph: Graph,
        components: Mapping[str, ComponentBase[Any]],
        deliver: Callable[[Any], None],
        on_links: OnLinks | None = None,
    ) -> None:
        self._on_links = on_links
        self.links = {(link.src, link.dst): LinkState(link) for link in graph.links}
        self.legs: dict[tuple[str, str, bool], Leg] = {}
        self._clock = clock
        self._graph = graph
        self._components = components
        self._deliver: Callable[[Passage], None] = deliver
        self._overheads = _Overheads(components)
        self._initiators = _of_role(components, Initiator)
        self._one_at_a_time = {node_id for node_id, block in self._initiators.items() if block.outstanding == 1}
        self._ports = {node_id: port for node_id, block in self._initiators.items() if (port := _port(node_id, block))}
        self._memories = _of_role(components, MemoryComponent)
        self._requests = {node_id: MemoryRequests() for node_id in self._memories}
        leads = {node_id: block.lead_ps for node_id, block in _of_role(components, TransferSource).items()}
        self._lookahead = Lookahead(graph, leads, self.overhead_ps)
        self._router = Router(graph, lambda node: self.overhead_ps(node.id))
        self._way_links: tuple[dict[int, WayLink], dict[int, WayLink]] = {}, {}
        self._hops_alone = partial(self._hops, at_once=False)
        self._hops_at_once = partial(self._hops, at_once=True)

    def ignore_leads(self) -> None:
        """Turns lookahead off for paths that are compiled later."""
        self._lookahead = Lookahead(self._graph, {}, self.overhead_ps)

    def forget_ops(self) -> None:
        """Forgets the ops so far, because another op log begins."""
        for leg in self.legs.values():
            leg.forget_ops()
        for requests in self._requests.values():
            requests.forget_ops()

    def port_ps(self, node_id: str, nbytes: int) -> int:
        """Picoseconds of *nbytes* at the port of *node_id* in one direction; 0 for a node without one."""
        ports = self._ports.get(node_id)
        return 0 if ports is None else ports[0].rate.ps(self.on_links(nbytes))

    @property
    def port_states(self) -> list[LinkState]:
        """All ports, first that for what a block sends and then that for what it gets."""
        return [state for port in self._ports.values() for state in port]

    def on_links(self, nbytes: int) -> int:
        """The bytes on each link of a transfer of *nbytes*."""
        return nbytes if self._on_links is None else self._on_links(nbytes)

    def overhead_ps(self, node_id: str) -> int:
        """Picoseconds that the head of a transfer takes to pass *node_id*; 0 for a node that forwards nothing."""
        return self._overheads[node_id]

    def route(self, src: str, dst: str) -> Route:
        """The nodes and links from *src* to *dst*. Raises TopologyError when no links lead there."""
        return self._router.route(src, dst)

    def leg(self, src: str, dst: str, at_once: bool = False) -> Leg:
        """The leg from *src* to *dst*. Raises TopologyError when no links lead there.

        With *at_once*, it is for transfers that go together: a block at one of its ends has several of them under way.
        """
        leg = self.legs.get((src, dst, at_once))
        if leg is None:
            links = self._with_ports(self.route(src, dst).links)
            overheads = self._overheads
            latency_ps = sum([link.latency_ps + overheads[link.dst] for link in links])
            compiled = self._hops_at_once if at_once else self._hops_alone
            leg = Leg(links, latency_ps, compiled, self._on_links, at_once)
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
            away = back = self.legs[src, dst, at_once] = Leg((), 0, self._hops_alone, at_once=at_once)
        else:
            away, back = self.leg(src, dst, at_once), self.leg(dst, src, at_once)
        nearest_ps = -1 if memory.reorders else self._lookahead.nearest_ps(dst)
        return MemoryPath(
            src, dst, memory, self._requests[dst], away, back, nearest_ps, self._components[src].event_order
        )

    def _with_ports(self, links: tuple[Link, ...]) -> tuple[Link, ...]:
        """*links*, between the ports of the blocks at their ends. A port is a link from a node to itself."""
        if self._ports and links:
            away, back = self._ports.get(links[0].src), self._ports.get(links[-1].dst)
            links = (*((away[0].link,) if away else ()), *links, *((back[1].link,) if back else ()))
        return links

    def _hops(self, links: tuple[Link, ...], at_once: bool) -> list[Hop]:
        """The hops over *links*. A link is shared where flows merge, or go on more slowly than they came.

        Flows that catch up leave the last shared link at up to its bandwidth, and the links between the two hold them
        back, so flows that leave a link within its bandwidth do not queue at the next one. Without a shared link
        before, the flows come from one source, and only a memory begins a transfer before the last one is at its end.
        """
        alone = _NONE if at_once else self._one_at_a_time
        is_read = bool(links) and links[0].src in self._memories
        overlaps = bool(links) and links[0].src not in alone
        meets, narrowest, known = False, _NO_WIDTH, self._way_links[at_once]
        hops: list[Hop] = []
        for number, link in enumerate(links):
            state, shares, width, made = known.get(id(link)) or self._way_link(link, at_once)
            narrows, is_narrower = False, width < narrowest and not _is_before_port(links, number)
            if is_narrower and not shares:
                narrows = meets and is_read and link.dst in alone
                shares = not narrows and (meets or (overlaps and link.dst not in alone))
            meets = meets or shares
            if shares or is_narrower or not hops:
                narrowest = width
            kind = _SHARED if shares else _NARROWS if narrows else _ALONE
            hop = made[kind]
            if hop is None:
                hop = made[kind] = self._hop(state, shares, narrows)
            hops.append(hop)
        return hops

    def _way_link(self, link: Link, at_once: bool) -> WayLink:
        """The data that all ways over *link* share. With *at_once*, its ends have several transfers under way."""
        merges = self._can_merge(link, _NONE if at_once else self._one_at_a_time)
        other = self._way_links[not at_once].get(id(link))
        if other is not None:
            found = other._replace(merges=merges)
        else:
            state = self.links.get((link.src, link.dst)) or self._port_state(link)
            found = WayLink(state, merges, state.rate.width, [None] * _KINDS)
        self._way_links[at_once][id(link)] = found
        return found

    def _hop(self, state: LinkState, shares: bool, narrows: bool) -> Hop:
        """A new hop over the link of *state*, which is one object for all legs."""
        after_ps = interned(state.link.latency_ps + self._overheads[state.link.dst])
        return Hop(state, after_ps, SharedLink(self._clock, state.rate, self._deliver) if shares else None, narrows)

    def _port_state(self, link: Link) -> LinkState:
        return next(state for state in self._ports[link.src] if state.link is link)

    def _can_merge(self, link: Link, alone: Set[str]) -> bool:
        """Whether two flows can want *link* at once.

        Most memories send the data of one request after the other, and so does an initiator with one read and one write
        at a time. Any other node may send and receive several transfers, and several links may feed a node that
        forwards.
        """
        nodes = self._graph.nodes
        if link.src not in self._graph.forwarding:
            memory = self._memories.get(link.src)
            return not memory.sends_in_order if memory is not None else link.src not in alone
        if link.dst in self._initiators:
            return link.dst not in alone
        to_memory = nodes[link.dst].memory is not None
        has_one = False
        for feeder in self._graph.in_links(link.src):
            if feeder.src != link.dst and not (to_memory and nodes[feeder.src].memory is not None):
                if has_one:
                    return True
                has_one = True
        return False


def _port(node_id: str, block: Initiator[Any]) -> tuple[LinkState, LinkState] | None:
    """The ports of *block* for data that it sends and for data that it gets, where a port has a bandwidth."""
    if block.port_gbs is None:
        return None
    away, back = (
        LinkState(Link(src=node_id, dst=node_id, bw_gbs=block.port_gbs, length_mm=Fraction(0), latency_ps=0))
        for _ in range(2)
    )
    return away, back


def _is_before_port(links: tuple[Link, ...], number: int) -> bool:
    """Whether a port that is no wider comes behind the link: then bytes wait at the port and not at the link."""
    after = links[number + 1] if number + 1 < len(links) else None
    return after is not None and after.is_port and after.bw_gbs <= links[number].bw_gbs


def _of_role(components: Mapping[str, ComponentBase[Any]], role: type[Any]) -> dict[str, Any]:
    """The blocks that have *role*, by node id. Each type is asked once, because `issubclass` of an ABC is slow."""
    types = {kind for kind in set(map(type, components.values())) if issubclass(kind, role)}
    return {node_id: block for node_id, block in components.items() if type(block) in types}
