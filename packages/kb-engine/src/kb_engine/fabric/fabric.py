"""The fabric: transfers between nodes, over shared links, and the time they take.

A transfer pays every hop's latency once, for its head, and its bytes at each link's bandwidth, cut-through. Links that
only one flow can feed are reserved ahead, exactly; where flows merge (`shared_link`), the head's arrival is an event.
A read is a request leg (0 bytes), the memory's service and a data leg; a write is a data leg, the service and an
acknowledgement (0 bytes); a message is one leg. Zero bytes occupy nothing. A read that nothing can overtake is reserved
at its memory when it begins (`lookahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simpy.events import NORMAL

from kb_engine.block.component import ComponentBase
from kb_engine.block.control_roles import HostPort
from kb_engine.block.fabric_roles import ForwardingComponent, Initiator, MemoryComponent
from kb_engine.block.in_flight import PipelineError
from kb_engine.fabric.link import Hop, Leg, LinkState, Path
from kb_engine.fabric.lookahead import Lookahead
from kb_engine.fabric.shared_link import SharedLink, Stream
from kb_engine.fabric.transfer import Transfer
from kb_engine.timing.clock import Clock
from kb_messages import FabricTransfer, Rectangle, TopologyError
from kb_topology import FORWARDING, AddressMap, Graph, Link, Route, Router


class Fabric:
    """Every link and memory of the system, and the transfers on them."""

    def __init__(
        self,
        clock: Clock,
        graph: Graph,
        address_map: AddressMap,
        on_transfer: Callable[[FabricTransfer], None] | None = None,
    ) -> None:
        self._clock = clock
        self._graph = graph
        self._links: dict[tuple[str, str], LinkState] = {(link.src, link.dst): LinkState(link) for link in graph.links}
        self._node_of_owner = {region.owner: region.node_id for region in address_map.regions}
        self._components: dict[str, ComponentBase[Any]] = {}
        self._overheads: dict[str, int] = {}
        self._paths: dict[tuple[str, int], Path] = {}
        self._legs: dict[tuple[str, str], Leg] = {}
        self._shared_links: dict[tuple[str, str], SharedLink | None] = {}
        self._shared = True
        self._router = Router(graph, lambda node: self.overhead_ps(node.id))
        self._initiators: dict[str, Initiator[Any]] = {}
        self._memories: dict[str, MemoryComponent[Any]] = {}
        self._lookahead = Lookahead(graph, {}, self.overhead_ps)
        self._on_transfer = on_transfer

    def attach(self, components: dict[str, ComponentBase[Any]]) -> None:
        """Tell the fabric which block stands at each node."""
        self._components = components
        self._initiators = _of_role(components, Initiator)
        self._memories = _of_role(components, MemoryComponent)
        hosts = _of_role(components, HostPort)
        leads = {node_id: block.lead_ps for node_id, block in self._initiators.items()} | dict.fromkeys(hosts, 0)
        self._lookahead = Lookahead(self._graph, leads, self.overhead_ps)
        self._shared = len(leads) != 1

    def wait_for_requests(self) -> None:
        """Reserve no read ahead, on paths found from now on: for transfers that start before their block's lead."""
        self._lookahead = Lookahead(self._graph, {}, self.overhead_ps)

    @property
    def links(self) -> list[LinkState]:
        """Every directed link, in the topology's order, with what it has carried so far."""
        for leg in self._legs.values():
            leg.settle()
        return list(self._links.values())

    def link(self, src: str, dst: str) -> LinkState:
        """The link from *src* to *dst*. Raises KeyError when there is none."""
        return self._links[src, dst]

    def overhead_ps(self, node_id: str) -> int:
        """Picoseconds that a head pays at *node_id*; 0 where nothing is passed through."""
        known = self._overheads.get(node_id)
        if known is None:
            component = self._components[node_id]
            known = component.overhead_ps() if isinstance(component, ForwardingComponent) else 0
            self._overheads[node_id] = known
        return known

    def route(self, src: str, dst: str) -> Route:
        """The nodes and links from *src* to *dst*. Raises TopologyError when no link leads there."""
        return self._router.route(src, dst)

    def path(self, src: str, owner: int) -> Path:
        """The way from node *src* to memory *owner*. Raises TopologyError when no link leads there, or none back."""
        path = self._paths.get((src, owner))
        if path is None:
            path = self._paths[src, owner] = self._find_path(src, self._node_of_owner[owner])
        return path

    def leg(self, src: str, dst: str) -> Leg:
        """The one way from *src* to *dst*. Raises TopologyError when no link leads there."""
        leg = self._legs.get((src, dst))
        if leg is None:
            leg = self._legs[src, dst] = self._compile(self._router.route(src, dst).links)
        return leg

    def read(self, path: Path, memory: Rectangle, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Bring the bytes of *memory* here; `finish(argument)` is called when the last one is.

        On an exclusive path all is known at once. Where no request can overtake this one, the memory is reserved now,
        and the links of the way back behind it. Else the request is waited for.
        """
        arrival = start_ps + path.request_ps
        flow = path.back.flow(memory.rows * memory.row_nbytes)
        flow.count += 1
        clock, target = self._clock, path.memory
        if path.exclusive:
            head, tail = target.reserve(arrival, memory, arrival, False)
            head += flow.slowest_ps
            end = (tail if tail > head else head) + flow.latency_ps
        elif arrival - clock.now_ps <= path.nearest_ps and flow.unshared and not target.awaited:
            if arrival < target.promised_ps:
                raise self._overtaken(path, arrival)
            target.promised_ps = arrival
            head, tail = target.reserve(arrival, memory, arrival, False)
            _, end = flow.reserve_ahead(head, tail)
        else:
            target.awaited += 1
            self._at(arrival, self._serve, Transfer(flow, path, memory, False, start_ps, finish, argument))
            return
        clock.push((end, NORMAL, next(clock.tickets), finish, argument))
        if self._on_transfer is not None:
            self._trace(path.src, path.dst, flow.nbytes, start_ps, end)

    def write(self, path: Path, memory: Rectangle, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Bring the bytes of *memory* there; `finish(argument)` is called when the acknowledgement is back."""
        flow = path.away.flow(memory.rows * memory.row_nbytes)
        flow.count += 1
        if not path.exclusive:
            path.memory.awaited += 1
            self._travel(Transfer(flow, path, memory, True, start_ps, finish, argument))
            return
        head = start_ps + flow.latency_ps
        _, committed = path.memory.reserve(head, memory, head + flow.slowest_ps, True)
        end = committed + path.response_ps
        self._clock.call_at(end, finish, argument)
        if self._on_transfer is not None:
            self._trace(path.src, path.dst, flow.nbytes, start_ps, end)

    def send(
        self, src: str, dst: str, nbytes: int, start_ps: int, finish: Callable[[Any], None], argument: Any
    ) -> None:
        """Send a message of *nbytes* from one node to another; `finish(argument)` is called when it is all there.

        Raises TopologyError when no link leads from *src* to *dst*.
        """
        flow = self.leg(src, dst).flow(nbytes)
        flow.count += 1
        if self._on_transfer is not None:
            untraced, finish = finish, lambda each: self._finish_message(src, dst, nbytes, start_ps, untraced, each)
        self._travel(Transfer(flow, None, None, True, start_ps, finish, argument))

    def _serve(self, transfer: Transfer) -> None:
        """A read's request is at the memory."""
        path, memory = transfer.path, transfer.memory
        assert path is not None
        assert memory is not None
        arrival = self._clock.now_ps
        transfer.head_ps, transfer.tail_ps = self._reserve_now(path, arrival, memory, False)
        self._travel(transfer)

    def _reserve_now(self, path: Path, head_ps: int, memory: Rectangle, write: bool) -> tuple[int, int]:
        """Serve a request that was waited for: its last byte is at the memory now."""
        target, now = path.memory, self._clock.now_ps
        if now < target.promised_ps:
            raise self._overtaken(path, now)
        target.awaited -= 1
        return target.reserve(head_ps, memory, now, write)

    def _travel(self, transfer: Transfer) -> None:
        """Reserve the links ahead of the first shared one, and go there."""
        head, tail, flow = transfer.head_ps, transfer.tail_ps, transfer.flow
        if not flow.nbytes:
            transfer.head_ps = transfer.due_ps = tail + flow.latency_ps
            self._at(transfer.due_ps, self._deliver, transfer)
            return
        transfer.head_ps, transfer.tail_ps = head, tail = flow.reserve_ahead(head, tail)
        if flow.shared:
            stream = Stream(transfer, 0, tail)
            self._at(head, stream.link.arrive, stream)
        elif transfer.write:
            self._at(tail, self._deliver, transfer)
        else:
            self._finish(transfer, tail)

    def _deliver(self, transfer: Transfer) -> None:
        """The last byte is at the end of the leg, now."""
        path, memory, now = transfer.path, transfer.memory, self._clock.now_ps
        if path is None or memory is None:
            transfer.finish(transfer.argument)
        elif transfer.write:
            _, committed = self._reserve_now(path, transfer.head_ps, memory, True)
            self._finish(transfer, committed + path.response_ps)
        else:
            self._finish(transfer, now)

    def _finish(self, transfer: Transfer, end_ps: int) -> None:
        path = transfer.path
        assert path is not None
        self._at(end_ps, transfer.finish, transfer.argument)
        if self._on_transfer is not None:
            self._trace(path.src, path.dst, transfer.flow.nbytes, transfer.t_start_ps, end_ps)

    def _finish_message(
        self, src: str, dst: str, nbytes: int, start_ps: int, finish: Callable[[Any], None], argument: Any
    ) -> None:
        self._trace(src, dst, nbytes, start_ps, self._clock.now_ps)
        finish(argument)

    def _at(self, t_ps: int, function: Callable[[Any], None], argument: Any) -> None:
        clock = self._clock
        clock.push((t_ps, NORMAL, next(clock.tickets), function, argument))

    def _trace(self, src: str, dst: str, nbytes: int, start_ps: int, end_ps: int) -> None:
        assert self._on_transfer is not None
        self._on_transfer(FabricTransfer(t_start_ps=start_ps, t_end_ps=end_ps, src=src, dst=dst, nbytes=nbytes))

    def _find_path(self, src: str, dst: str) -> Path:
        memory = self._memories.get(dst)
        if memory is None:
            found = type(self._components[dst]).__name__
            raise TopologyError(f"{src} -> {dst}", f"a {found}, which takes no requests", "a MemoryComponent")
        nodes = self._graph.nodes
        if nodes[dst].pe_id is not None and nodes[dst].pe_id == nodes[src].pe_id:
            away = back = Leg([])
        else:
            away, back = self.leg(src, dst), self.leg(dst, src)
        return Path(src, dst, memory, away, back, self._shared, self._lookahead.nearest_ps(dst))

    def _overtaken(self, path: Path, arrival_ps: int) -> PipelineError:
        return PipelineError(
            path.src,
            f"a request that is at {path.dst} at {arrival_ps} ps",
            f"{path.memory.promised_ps} ps or later",
            "a block that starts transfers is an Initiator or HostPort, and its `lead_ps` no more than it takes",
        )

    def _compile(self, links: tuple[Link, ...]) -> Leg:
        hops: list[Hop] = []
        for link in links:
            state = self._links[link.src, link.dst]
            after_ps = link.latency_ps + self.overhead_ps(link.dst)
            hops.append(Hop(state, after_ps, self._shared_link(link, hops)))
        return Leg(hops)

    def _shared_link(self, link: Link, before: list[Hop]) -> SharedLink | None:
        """The meeting of flows on *link*, or None where they cannot meet, or never queue.

        Behind a shared link, one that carries no more than what one wider link feeds it has nothing to share out.
        """
        if not self._merges(link) and not (any(hop.shared for hop in before) and self._narrows(link, before)):
            return None
        key = link.src, link.dst
        shared = self._shared_links.get(key)
        if shared is None:
            shared = self._shared_links[key] = SharedLink(self._clock, self._links[key].rate, self._deliver)
        return shared

    def _narrows(self, link: Link, before: list[Hop]) -> bool:
        if link.dst in self._initiators:
            return link.bw_gbs < min(hop.state.link.bw_gbs for hop in before)
        return link.bw_gbs < before[-1].state.link.bw_gbs

    def _merges(self, link: Link) -> bool:
        """Whether two flows can want *link* at once.

        A memory sends one after the other, a DMA reads and writes one at a time; any other node may send and receive
        several, and a node in between may be fed by several links.
        """
        nodes = self._graph.nodes
        if nodes[link.src].kind not in FORWARDING:
            return link.src not in self._memories and link.src not in self._initiators
        if link.dst in self._initiators:
            return False
        to_memory = nodes[link.dst].memory is not None
        feeders = [
            feeder
            for feeder in self._graph.in_links(link.src)
            if feeder.src != link.dst and not (to_memory and nodes[feeder.src].memory is not None)
        ]
        return len(feeders) > 1


def _of_role(components: Mapping[str, ComponentBase[Any]], role: type[Any]) -> dict[str, Any]:
    """The blocks that have *role*, by node id. A block's type is asked once: an abstract class answers slowly."""
    types = {kind for kind in set(map(type, components.values())) if issubclass(kind, role)}
    return {node_id: block for node_id, block in components.items() if type(block) in types}
