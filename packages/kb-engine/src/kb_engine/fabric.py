"""The fabric: how bytes travel from a DMA to a memory and back, over links, forwarding nodes and the memory itself.

A transfer pays every hop's latency once, for its head, and its bytes at each link's bandwidth, cut-through. A link or
memory that only one flow can feed is reserved ahead, exactly; where flows merge, an event puts them in order of
arrival. A read is a request leg (0 bytes), the memory's service and a data leg; a write is a data leg, the service
and an acknowledgement (0 bytes). Zero bytes occupy nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from heapq import heappush
from typing import Any

from simpy.events import NORMAL

from kb_engine.clock import Clock
from kb_engine.component import ComponentBase, SpecT
from kb_engine.units import Rate
from kb_messages.trace import FabricTransfer
from kb_topology import AddressMap, Graph, Link, Router
from kb_topology.spec import FORWARDING


class ForwardingComponent(ComponentBase[SpecT]):
    """A node that bytes pass through: router, crossbar, bridge."""

    @abstractmethod
    def overhead_ps(self) -> int:
        """Latency the head of a transfer pays here. Pure."""


class MemoryComponent(ComponentBase[SpecT]):
    """A memory channel behind the fabric; serves requests in order of arrival."""

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.free_ps = 0
        self.busy_ps = 0
        self.read_nbytes = 0
        self.written_nbytes = 0
        self._costs: tuple[dict[int, tuple[int, int]], ...] = ({}, {})

    @abstractmethod
    def latency_ps(self, nbytes: int, write: bool) -> int:
        """From the start of a request's service to its first byte (read) or its commit (write). Pure."""

    @abstractmethod
    def occupancy_ps(self, nbytes: int, write: bool) -> int:
        """How long a request's bytes hold the channel. Pure."""

    def reserve(self, t_ps: int, nbytes: int, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Serve a request whose head arrives at *t_ps*, its last byte not before *last_byte_ps*.

        Returns when the first and the last byte leave (read), or twice when the write is committed.
        """
        costs = self._costs[write].get(nbytes)
        if costs is None:
            costs = self.occupancy_ps(nbytes, write), self.latency_ps(nbytes, write)
            self._costs[write][nbytes] = costs
        occupied, latency = costs
        start = t_ps if t_ps > self.free_ps else self.free_ps
        end = start + occupied
        if end < last_byte_ps:
            end = last_byte_ps
        self.free_ps = end
        self.busy_ps += occupied
        if write:
            self.written_nbytes += nbytes
            return end + latency, end + latency
        self.read_nbytes += nbytes
        return start + latency, end + latency


class LinkState:
    """One direction of a link: when it is next free, and what it has carried."""

    __slots__ = ("busy_ps", "free_ps", "link", "nbytes", "rate")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.rate = Rate.from_gbs(link.bw_gbs)
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0


class Hop:
    """A link on a path, the latency until the next link's start, and whether other flows can meet ours there."""

    __slots__ = ("after_ps", "merges", "state")

    def __init__(self, state: LinkState, after_ps: int, merges: bool) -> None:
        self.state = state
        self.after_ps = after_ps
        self.merges = merges


class Flow:
    """Transfers of one size over one path in one direction: what their bytes cost each link, asked for once."""

    __slots__ = ("count", "latency_ps", "leg", "slowest_ps")

    def __init__(self, hops: list[Hop], nbytes: int) -> None:
        self.leg = [(hop.state, hop.after_ps, hop.state.rate.ps(nbytes)) for hop in hops]
        self.latency_ps = sum(hop.after_ps for hop in hops)
        self.slowest_ps = max(duration for _, _, duration in self.leg)
        self.count = 0


class Path:
    """A DMA's way to a memory and back, compiled once.

    It is `exclusive` when nothing else can be on it: then the links never make a transfer wait.
    """

    __slots__ = (
        "away",
        "back",
        "dst",
        "exclusive",
        "memory",
        "reads",
        "request_ps",
        "response_ps",
        "shared",
        "src",
        "writes",
    )

    def __init__(
        self, src: str, dst: str, memory: MemoryComponent[Any], away: list[Hop], back: list[Hop], shared: bool
    ) -> None:
        self.src = src
        self.dst = dst
        self.memory = memory
        self.away = away
        self.back = back
        self.shared = shared
        self.exclusive = not shared and not any(hop.merges for hop in away + back)
        self.request_ps = sum(hop.after_ps for hop in away)
        self.response_ps = sum(hop.after_ps for hop in back)
        self.reads: dict[int, Flow] = {}
        self.writes: dict[int, Flow] = {}

    def add_flow(self, nbytes: int, write: bool) -> Flow:
        """The flow of transfers of *nbytes*, not asked for before."""
        flows, hops = (self.writes, self.away) if write else (self.reads, self.back)
        flow = flows[nbytes] = Flow(hops, nbytes)
        return flow


class Transfer:
    """Bytes under way. `head_ps` and `tail_ps` are when the first and the last byte reach the next hop."""

    __slots__ = (
        "argument",
        "finish",
        "head_ps",
        "hop",
        "leg",
        "nbytes",
        "path",
        "t_start_ps",
        "tail_ps",
        "write",
    )

    def __init__(
        self, path: Path, nbytes: int, write: bool, finish: Callable[[Any], None], argument: Any, now: int
    ) -> None:
        self.path = path
        self.nbytes = nbytes
        self.write = write
        self.finish = finish
        self.argument = argument
        flow = (path.writes if write else path.reads).get(nbytes) or path.add_flow(nbytes, write)
        self.leg = flow.leg
        self.hop = 0
        self.t_start_ps = self.head_ps = self.tail_ps = now


class Initiator(ComponentBase[SpecT]):
    """A block that starts transfers, one read and one write at a time at most; the fabric counts on that."""


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

    def read(self, path: Path, nbytes: int, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Bring *nbytes* from the memory; `finish(argument)` is called when the last byte is here."""
        arrival = start_ps + path.request_ps
        if not path.exclusive:
            transfer = Transfer(path, nbytes, False, finish, argument, start_ps)
            transfer.head_ps = transfer.tail_ps = arrival
            self._at_memory(transfer)
            return
        flow = path.reads.get(nbytes) or path.add_flow(nbytes, False)
        flow.count += 1
        head, tail = path.memory.reserve(arrival, nbytes, arrival, False)
        head += flow.slowest_ps
        end = (tail if tail > head else head) + flow.latency_ps
        clock = self._clock
        heappush(clock.heap, (end, NORMAL, next(clock.tickets), finish, argument))
        if self.trace is not None:
            self._trace(path, nbytes, start_ps, end)

    def write(self, path: Path, nbytes: int, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Bring *nbytes* to the memory; `finish(argument)` is called when the acknowledgement is back."""
        if not path.exclusive:
            self._travel(Transfer(path, nbytes, True, finish, argument, start_ps))
            return
        flow = path.writes.get(nbytes) or path.add_flow(nbytes, True)
        flow.count += 1
        head = start_ps + flow.latency_ps
        _, committed = path.memory.reserve(head, nbytes, head + flow.slowest_ps, True)
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
            transfer.head_ps, transfer.nbytes, transfer.tail_ps, transfer.write
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
            raise TypeError(f"{dst} is not behind the fabric")
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
