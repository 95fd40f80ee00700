"""The ways that transfers take: a leg leads from one node to another, a path to a memory and back.

The fabric compiles each leg and each path once. Everything that a transfer needs from its way is an attribute here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.json import encode

from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.state_visitor import COUNT, PART, SAME, State, Stateful, StateVisitor
from kb_engine.fabric.incoming_write import MemoryRequests
from kb_engine.fabric.link import LinkState
from kb_engine.fabric.sharing.last_link import Narrowing
from kb_engine.fabric.sharing.shared_link import SharedLink
from kb_engine.fabric.sharing.stream import SharedHop
from kb_engine.timing.interning import interned
from kb_messages import Rectangle
from kb_topology import Link

OnLinks = Callable[[int], int]
"""Gives the bytes on each link from the bytes of a transfer."""


_MANY_NBYTES: Final = 1 << 40
"""Bytes of so many packets that the bytes of one packet follow from their number."""


class Hop(NamedTuple):
    """A link of a leg, and the latency until the next link starts. `shared` is None where no two flows can meet.

    `narrows` says that the link is the last one, and that bytes of one transfer at a time may come faster than they
    leave.
    """

    state: LinkState
    after_ps: int
    shared: SharedLink | None
    narrows: bool = False


_NEVER: Final = -2


class Flow(Stateful):
    """All transfers of one size over one leg. The time of their bytes on each link is computed once.

    `nbytes` are the bytes on a link: the `payload_nbytes` of the transfer, and the headers of its packets.

    `ahead` holds the links before the first shared link, in order. `shared` is the first shared link. `narrowing` is
    the last link, if bytes from the last shared link may come there faster than they leave. A flow is `unshared` when
    it has bytes and passes no shared link. `slowest_ps` is the time of the bytes on the narrowest link. `hops` are all
    links in order.

    These attributes and `latency_ps` exist after `find_passing`, which is called before the first transfer. Most flows
    of isolated commands are only counted.

    `count` counts the transfers that began, and `under_way` the transfers that are not over, if the fabric is watched.

    With an op log, `read_alone_ps` and `write_alone_ps` are the times of a read and of a write that meet no other
    transfer, from the request on; -1 before the first such request. They are _NEVER for pieces and for requests that
    may go together: each of these has a row in the log, because other requests of as many bytes take other times. `way`
    is the number of the flow's reads in the rows of the log, -1 before the first one, and `memory_ps` is the answer of
    `read_latency_ps` of their memory.
    """

    state: ClassVar[State] = {
        "count": COUNT,
        "under_way": SAME,
        "read_alone_ps": SAME,
        "write_alone_ps": SAME,
    }
    __slots__ = (
        *state,
        "ahead",
        "hops",
        "latency_ps",
        "memory_ps",
        "narrowing",
        "nbytes",
        "payload_nbytes",
        "shared",
        "slowest_ps",
        "unshared",
        "way",
    )

    def __init__(self, hops: list[Hop], payload_nbytes: int, nbytes: int, alone_ps: int = -1) -> None:
        self.payload_nbytes = interned(payload_nbytes)
        self.nbytes = nbytes = interned(nbytes)
        self.count = self.under_way = 0
        self.hops = hops
        self.read_alone_ps = self.write_alone_ps = alone_ps
        self.way = -1
        self.memory_ps: int | None = None

    def find_passing(self) -> None:
        """Finds how the bytes pass the links, which know the flow from then on."""
        self.latency_ps = interned(sum([hop.after_ps for hop in self.hops]))
        self.ahead: list[tuple[LinkState, int, int]] = []
        self.shared: SharedHop | None = None
        self.narrowing: Narrowing | None = None
        self.slowest_ps = 0
        if self.nbytes:
            self._sort(self.hops)
        self.unshared = bool(self.nbytes) and not self.shared

    def add(self, count: int, read_alone_ps: int, write_alone_ps: int) -> None:
        """Counts *count* more transfers.

        The other arguments are the times of a read and of a write that meet no other transfer.
        """
        self.count += count
        self.read_alone_ps, self.write_alone_ps = read_alone_ps, write_alone_ps

    def is_logged(self, way: int, memory_ps: int | None) -> None:
        """Sets `way` and `memory_ps` when the first read with an op log begins."""
        self.way, self.memory_ps = way, memory_ps

    def forget_ops(self) -> None:
        """Forgets the times of transfers that met no other one, because another op log begins."""
        if self.read_alone_ps != _NEVER:
            self.read_alone_ps = self.write_alone_ps = -1

    def _sort(self, hops: list[Hop]) -> None:
        """Fills `ahead` and `shared`. An unshared link behind a shared link adds nothing but latency."""
        found: list[tuple[SharedLink, int, int]] = []
        nbytes, slowest_ps = self.nbytes, 0
        for state, after_ps, link, narrows in hops:
            duration = state.rate.ps(nbytes)
            if duration > slowest_ps:
                slowest_ps = duration
            if narrows:
                self.narrowing = Narrowing(state.rate.per_ps, duration, after_ps)
            elif link is not None:
                found.append((link, after_ps, duration))
            elif not found:
                self.ahead.append((state, after_ps, interned(duration)))
            else:
                last, before_ps, last_duration = found[-1]
                found[-1] = last, before_ps + after_ps, last_duration
        self.slowest_ps = interned(slowest_ps)
        for link, after_ps, duration in reversed(found):
            self.shared = SharedHop(link, after_ps, duration, self.nbytes, self.shared)
            link.serves(self)

    def reserve_ahead(self, head_ps: int, tail_ps: int) -> tuple[int, int]:
        """Reserves the links of `ahead`. Returns when the first and the last byte leave the last of these links.

        Cut-through: a link starts when the head arrives or when the link is free, whichever is later. The bytes hold
        the link for at least their own time.
        """
        for link, after_ps, duration in self.ahead:
            start = head_ps if head_ps > link.free_ps else link.free_ps
            end = start + duration
            if end < tail_ps:
                end = tail_ps
            link.free_ps = end
            head_ps, tail_ps = start + after_ps, end + after_ps
        return head_ps, tail_ps


class Leg:
    """The way from one node to another. A transfer of zero bytes pays *latency_ps* and nothing else.

    *compiled* gives the hops over *links* when they are first asked for: most legs between processors have messages
    without bytes alone. *on_links* gives the bytes on a link of a transfer of so many bytes, where packets have
    headers. With *at_once*, requests may go together with others, so each of them has a row in the op log.

    `is_of_memory` says that a path to a memory has the leg. All other legs carry messages.
    """

    __slots__ = (
        "_alone_ps",
        "_compiled",
        "_counted",
        "_flows",
        "_hops",
        "_on_links",
        "_pieces_flows",
        "is_of_memory",
        "latency_ps",
        "links",
    )

    def __init__(
        self,
        links: tuple[Link, ...],
        latency_ps: int,
        compiled: Callable[[tuple[Link, ...]], list[Hop]],
        on_links: OnLinks | None = None,
        at_once: bool = False,
    ) -> None:
        self._alone_ps = _NEVER if at_once else -1
        self.links = links
        self.latency_ps = latency_ps
        self.is_of_memory = False
        self._compiled = compiled
        self._hops: list[Hop] | None = None
        self._on_links = on_links
        self._counted: dict[int, Flow] = {}
        self._flows: dict[int, Flow] = {}
        self._pieces_flows: dict[int, Flow] = {}

    def leads_to_memory(self) -> None:
        """Notes that a path to a memory has the leg."""
        self.is_of_memory = True

    @property
    def hops(self) -> list[Hop]:
        """All links, in order."""
        if self._hops is None:
            self._hops = self._compiled(self.links)
        return self._hops

    def slowest_ps(self, nbytes: int) -> int:
        """Picoseconds of *nbytes* on the narrowest link, 0 without links."""
        on_link = self.on_links(nbytes)
        return max((hop.state.rate.ps(on_link) for hop in self.hops), default=0)

    @property
    def form_of_idle(self) -> Hashable:
        """What the time of bytes on the narrowest link follows from, besides their number."""
        narrowest = max([hop.state.rate.ps_each for hop in self.hops], default=0)
        return narrowest, self.on_links(1), self.on_links(_MANY_NBYTES)

    @property
    def has_headers(self) -> bool:
        """Whether packets have headers."""
        return self._on_links is not None

    def on_links(self, nbytes: int) -> int:
        """The bytes on each link of a transfer of *nbytes*."""
        return nbytes if self._on_links is None else self._on_links(nbytes)

    def flow(self, nbytes: int) -> Flow:
        """The flow of all transfers of *nbytes*, for the next of them."""
        flow = self._flows.get(nbytes)
        if flow is None:
            flow = self._flows[nbytes] = self.counted(nbytes)
            flow.find_passing()
        return flow

    def pieces_flow(self, nbytes: int) -> Flow:
        """The flow of all transfers of pieces that count as *nbytes*, for the next of them."""
        flow = self._pieces_flows.get(nbytes)
        if flow is None:
            flow = self._pieces_flows[nbytes] = Flow(self.hops, nbytes, self.on_links(nbytes), _NEVER)
            flow.find_passing()
        return flow

    def counted(self, nbytes: int) -> Flow:
        """The flow of all transfers of *nbytes*, to be counted: it may not know how its bytes pass the links."""
        flow = self._counted.get(nbytes)
        if flow is None:
            flow = self._counted[nbytes] = Flow(self.hops, nbytes, self.on_links(nbytes), self._alone_ps)
        return flow

    @property
    def flows(self) -> Mapping[int, Flow]:
        """The flows so far by bytes, without flows of pieces. Flows that were only counted are included."""
        return self._counted

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the flows and links to *over*, after the transfers on their way were visited."""
        over.same(len(self._counted), len(self._pieces_flows))
        for flow in chain(self._counted.values(), self._pieces_flows.values()):
            flow.visit_state(over)
        for hop in self._hops or ():
            over.part(hop.state)
            if hop.shared is not None:
                over.part(hop.shared)

    def forget_ops(self) -> None:
        """Forgets which transfers the op log has rows of, because another log begins."""
        for flow in self._counted.values():
            flow.forget_ops()

    def settle(self) -> None:
        """Moves the counts of the flows to the links."""
        for flow in chain(self._counted.values(), self._pieces_flows.values()):
            for hop in self.hops if flow.count else ():
                busy_ps, nbytes = flow.count * hop.state.rate.ps(flow.nbytes), flow.count * flow.nbytes
                hop.state.count(busy_ps, nbytes, not self.is_of_memory)
            flow.count = 0


class MemoryPath(Stateful):
    """The way from a node to a memory and back. From a DMA to the TCM of its own PE both legs have no links.

    `nearest_ps` is the lookahead of the memory, and `requests` are shared by all paths to the memory. `event_order`
    gives the numbers for the ends of transfers: the numbers of the PE that asks for them.
    """

    state: ClassVar[State] = {"away": PART, "back": PART, "requests": PART}
    __slots__ = (*state, "_places", "dst", "event_order", "memory", "nearest_ps", "request_ps", "response_ps", "src")

    def __init__(
        self,
        src: str,
        dst: str,
        memory: MemoryComponent[Any],
        requests: MemoryRequests,
        away: Leg,
        back: Leg,
        nearest_ps: int,
        event_order: Iterator[int],
    ) -> None:
        self.event_order = event_order
        self.src = src
        self.dst = dst
        self.memory = memory
        self.requests = requests
        self.away = away
        self.back = back
        away.leads_to_memory()
        back.leads_to_memory()
        self.nearest_ps = interned(nearest_ps)
        self.request_ps = interned(away.latency_ps)
        self.response_ps = interned(back.latency_ps)
        self._places: frozenset[object] | None = None

    @property
    def places(self) -> frozenset[object]:
        """The memory's requests and all links."""
        places = self._places
        if places is None:
            states = [hop.state for hop in (*self.away.hops, *self.back.hops)]
            places = self._places = frozenset((self.requests, *states))
        return places

    @property
    def burst_nbytes(self) -> int:
        """Bytes of a burst of the memory."""
        return self.memory.burst_nbytes

    def alone_ps(self, memory: Rectangle, write: bool, least_ps: int = 0) -> tuple[int, int]:
        """Picoseconds of a transfer of *memory* with nothing else under way, and of its bytes at the memory.

        The bytes take at least *least_ps* on their links. In closed form, for estimates alone.
        """
        latency_ps, bytes_ps = self.memory.idle_ps(memory, write)
        data = self.away if write else self.back
        slowest_ps = max(bytes_ps, data.slowest_ps(memory.nbytes), least_ps)
        return self.request_ps + latency_ps + slowest_ps + self.response_ps, bytes_ps

    @property
    def form_of_idle(self) -> Hashable:
        """What `alone_ps` follows from, besides the rectangle and its place in the memory."""
        memory = type(self.memory), encode(self.memory.spec)
        return *memory, self.request_ps, self.response_ps, self.away.form_of_idle, self.back.form_of_idle
