"""The fabric: how bytes travel from a DMA to a memory and back, over links, forwarding nodes and the memory itself.

A transfer pays every hop's latency once, for its head, and its bytes at each link's bandwidth, cut-through. A link or
memory that only one flow can feed is reserved ahead, exactly; where flows merge, an event puts them in order of
arrival. A read is a request leg (0 bytes), the memory's service and a data leg; a write is a data leg, the service
and an acknowledgement (0 bytes). Zero bytes occupy nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from simpy.events import NORMAL

from kb_engine.clock import Clock
from kb_engine.component import ComponentBase
from kb_engine.links import Hop, LinkState, Path, Transfer
from kb_engine.roles import ForwardingComponent, Initiator, MemoryComponent
from kb_messages.errors import TopologyError
from kb_messages.stages import Rectangle
from kb_messages.trace import FabricTransfer
from kb_topology import AddressMap, Graph, Link, Router
from kb_topology.spec import FORWARDING


class Fabric:
    """Every link and memory of the system, and the transfers on them."""

    def __init__(self, clock: Clock, graph: Graph, address_map: AddressMap) -> None:
        self._clock = clock
        self._graph = graph
        self._links: dict[tuple[str, str], LinkState] = {(link.src, link.dst): LinkState(link) for link in graph.links}
        self._node_of_owner = {region.owner: region.node_id for region in address_map.regions}
        self._components: dict[str, ComponentBase[Any]] = {}
        self._paths: dict[tuple[str, int], Path] = {}
        self._shared = True
        self._router = Router(graph, lambda node: self._overhead_ps(node.id))
        self.trace: Callable[[FabricTransfer], None] | None = None

    def attach(self, components: dict[str, ComponentBase[Any]]) -> None:
        """Tell the fabric which block stands at each node."""
        self._components = components
        self._shared = sum(1 for component in components.values() if isinstance(component, Initiator)) != 1

    @property
    def links(self) -> list[LinkState]:
        """Every directed link, in the topology's order, with what it has carried so far."""
        for path in self._paths.values():
            for flows in (path.reads, path.writes):
                for nbytes, flow in flows.items():
                    for link, _, duration in flow.leg:
                        link.busy_ps += flow.count * duration
                        link.nbytes += flow.count * nbytes
                    flow.count = 0
        return list(self._links.values())

    def path(self, src: str, owner: int) -> Path:
        """The way from node *src* to memory *owner*. Raises TopologyError when no link leads there."""
        path = self._paths.get((src, owner))
        if path is None:
            path = self._paths[src, owner] = self._compile(src, self._node_of_owner[owner])
        return path

    def read(self, path: Path, memory: Rectangle, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Bring the bytes of *memory* here; `finish(argument)` is called when the last one is."""
        arrival = start_ps + path.request_ps
        if not path.exclusive:
            transfer = Transfer(path, memory, False, finish, argument, start_ps)
            transfer.head_ps = transfer.tail_ps = arrival
            self._at_memory(transfer)
            return
        nbytes = memory.rows * memory.row_nbytes
        flow = path.reads.get(nbytes) or path.add_flow(nbytes, False)
        flow.count += 1
        head, tail = path.memory.reserve(arrival, memory, arrival, False)
        head += flow.slowest_ps
        end = (tail if tail > head else head) + flow.latency_ps
        clock = self._clock
        heappush(clock.heap, (end, NORMAL, next(clock.tickets), finish, argument))
        if self.trace is not None:
            self._trace(path, nbytes, start_ps, end)

    def write(self, path: Path, memory: Rectangle, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Bring the bytes of *memory* there; `finish(argument)` is called when the acknowledgement is back."""
        if not path.exclusive:
            self._travel(Transfer(path, memory, True, finish, argument, start_ps))
            return
        nbytes = memory.rows * memory.row_nbytes
        flow = path.writes.get(nbytes) or path.add_flow(nbytes, True)
        flow.count += 1
        head = start_ps + flow.latency_ps
        _, committed = path.memory.reserve(head, memory, head + flow.slowest_ps, True)
        end = committed + path.response_ps
        self._clock.call_at(end, finish, argument)
        if self.trace is not None:
            self._trace(path, nbytes, start_ps, end)

    def _at_memory(self, transfer: Transfer) -> None:
        if transfer.path.shared and transfer.head_ps > self._clock._now:
            self._clock.call_at(transfer.head_ps, self._serve, transfer)
        else:
            self._serve(transfer)

    def _serve(self, transfer: Transfer) -> None:
        path = transfer.path
        transfer.head_ps, transfer.tail_ps = path.memory.reserve(
            transfer.head_ps, transfer.memory, transfer.tail_ps, transfer.write
        )
        if transfer.write:
            transfer.tail_ps += path.response_ps
            self._arrive(transfer)
        else:
            self._travel(transfer)

    def _travel(self, transfer: Transfer) -> None:
        """Reserve the links of the data leg, up to one where flows merge and the head is not there yet.

        Cut-through: a link starts with the head, or when it is free, and holds the bytes for its own duration at least.
        """
        path = transfer.path
        hops = path.away if transfer.write else path.back
        now = self._clock._now
        head, tail, nbytes = transfer.head_ps, transfer.tail_ps, transfer.nbytes
        for number in range(transfer.hop, len(hops)):
            if head > now and hops[number].merges:
                transfer.hop, transfer.head_ps, transfer.tail_ps = number, head, tail
                self._clock.call_at(head, self._travel, transfer)
                return
            link, after_ps, duration = transfer.leg[number]
            start = head if head > link.free_ps else link.free_ps
            end = start + duration
            if end < tail:
                end = tail
            link.free_ps = end
            link.busy_ps += duration
            link.nbytes += nbytes
            head, tail = start + after_ps, end + after_ps
        transfer.head_ps, transfer.tail_ps = head, tail
        if transfer.write:
            self._at_memory(transfer)
        else:
            self._arrive(transfer)

    def _arrive(self, transfer: Transfer) -> None:
        self._clock.call_at(transfer.tail_ps, transfer.finish, transfer.argument)
        if self.trace is not None:
            self._trace(transfer.path, transfer.nbytes, transfer.t_start_ps, transfer.tail_ps)

    def _trace(self, path: Path, nbytes: int, start_ps: int, end_ps: int) -> None:
        assert self.trace is not None
        self.trace(FabricTransfer(t_start_ps=start_ps, t_end_ps=end_ps, src=path.src, dst=path.dst, nbytes=nbytes))

    def _compile(self, src: str, dst: str) -> Path:
        memory = self._components[dst]
        if not isinstance(memory, MemoryComponent):
            got = f"a transfer to a {type(memory).__name__}"
            raise TopologyError(dst, got, "a memory that the fabric reaches", "give the node another impl")
        away = [self._hop(link) for link in self._router.route(src, dst).links]
        back = [self._hop(link) for link in self._router.route(dst, src).links]
        return Path(src, dst, memory, away, back, self._shared)

    def _hop(self, link: Link) -> Hop:
        state = self._links[link.src, link.dst]
        return Hop(state, link.latency_ps + self._overhead_ps(link.dst), self._merges(link))

    def _overhead_ps(self, node_id: str) -> int:
        component = self._components[node_id]
        return component.overhead_ps() if isinstance(component, ForwardingComponent) else 0

    def _merges(self, link: Link) -> bool:
        """Whether two flows can want *link* at once: it does not lead to the only reader, and several links feed it."""
        nodes = self._graph.nodes
        if nodes[link.src].kind not in FORWARDING or isinstance(self._components[link.dst], Initiator):
            return False
        to_memory = nodes[link.dst].memory is not None
        feeders = [
            feeder
            for feeder in self._graph.in_links(link.src)
            if feeder.src != link.dst and not (to_memory and nodes[feeder.src].memory is not None)
        ]
        return len(feeders) > 1
