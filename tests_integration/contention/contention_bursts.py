"""The reference: transfers over a whole chip, burst after burst, as a plain simulation of events in exact time.

These are its rules; it shares no code with the fabric of the engine, and takes only routes from kb_topology.

- The head of a transfer pays the latency of every link and the overhead of every node that forwards it. Bytes pay the
  bandwidth of every link, cut-through: a link starts a burst as soon as it need not stop in the middle of it.
- A link has a queue for each transfer. It takes a burst from each queue that has one, in turn. A transfer that comes
  joins at the end of the round. A link that leaves a memory of one channel, or a DMA with one transfer at a time each
  way, has one queue for all.
- Nodes have room for everything that waits.
- A memory serves bytes in the order in which they come: all bytes of a read come with its request, the bytes of a write
  come burst by burst. The latency overlaps.
- A memory with banks says itself when the first and the last byte of a read leave; the bytes between leave evenly. Its
  data have one queue at its link if it has one pseudo-channel. It is only read.
- A transfer has headers on its links, spread evenly among its bytes. Memories see the bytes alone.
- A DMA with a port has it before its links and behind them: a link of no latency.
- A read is a request of no bytes, its service, and its data. A write is its data, its service, and an acknowledgement
  of no bytes. A message is its data. No bytes occupy nothing.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from msgspec import UnsetType

from kb_messages import Rectangle
from kb_topology import FORWARDING, Link, Node, NodeKind, Router, Topology, exact


class Transfer(NamedTuple):
    """What is sent: `kind` is read, write or message, `src` and `dst` are nodes. The memory of a read is its `dst`.

    `offset` is the address in the memory.
    """

    kind: str
    src: str
    dst: str
    nbytes: int
    start_ps: int
    offset: int = 0


class Banked(Protocol):
    """A memory with banks."""

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """When the first and the last byte of a read that comes at *t_ps* leave."""


class Burst(NamedTuple):
    """*size* grains of transfer *number*. It is at the link `way[0]`, or at the end of its way when that is empty."""

    number: int
    size: int
    is_last: bool
    way: tuple[Wire, ...]


class Wire:
    """One direction of a link: the ticks of a grain, and the ticks until the head is at the next link."""

    def __init__(self, ticks_each: int, after: int, has_turns: bool) -> None:
        self.ticks_each = ticks_each
        self.after = after
        self.has_turns = has_turns
        self.round: OrderedDict[int, deque[Burst]] = OrderedDict()
        self.is_busy = False


class Port:
    """A way into a memory, which serves one thing after the other: the ticks of a grain, and of the latency."""

    def __init__(self, ticks_each: int, latency: int) -> None:
        self.ticks_each = ticks_each
        self.latency = latency
        self.free = 0

    def serve(self, size: int, earliest: int) -> int:
        """When the service of what comes now begins: behind all that came before, and not before *earliest*."""
        begin = max(self.free, earliest)
        self.free = begin + size * self.ticks_each
        return begin


class BurstSimulation:
    """One chip and one run of transfers, in bursts of *burst_nbytes*, which may be less than a byte.

    Bytes are counted in grains and time in ticks. Both are so small that all numbers are whole. *banked* holds the
    memories with banks by node id, which nobody else uses.
    """

    def __init__(self, topology: Topology, burst_nbytes: Fraction, banked: Mapping[str, Banked] | None = None) -> None:
        nodes = topology.graph.nodes
        self.banked = banked or {}
        self.overheads_ps = {node.id: overhead_ps(node) for node in nodes.values()}
        self.router = Router(topology.graph, lambda node: self.overheads_ps[node.id])
        self.burst, self.grains_a_byte = burst_nbytes.numerator, burst_nbytes.denominator
        memories = [node for node in nodes.values() if node.impl in ONE_CHANNEL]
        rates = [1000 / link.bw_gbs for link in topology.graph.links]
        rates += [1000 / exact(node.attrs["bw_gbs"]) for node in memories]
        ported = {node.id: gbs for node in nodes.values() if (gbs := port_gbs(node))}
        rates += [1000 / gbs for gbs in ported.values()]
        self.packets = topology.spec.packets
        self.is_interleaved = bool(topology.address_map.interleaved)
        self.ticks_a_ps = math.lcm(*((rate / self.grains_a_byte).denominator for rate in rates))
        self.wires = {(link.src, link.dst): self.wire(link, nodes[link.src]) for link in topology.graph.links}
        self.dma_ports = {
            (node_id, way): Wire(self.ticks_each(gbs), 0, self.takes_turns(nodes[node_id]))
            for node_id, gbs in ported.items()
            for way in ("away", "back")
        }
        self.ports = {(node.id, kind): port for node in memories for kind, port in self.ports_of(node)}
        self.events: list[tuple[int, int, int, Callable[..., None], Any]] = []
        self.event_order = self.now = 0
        self.transfers: list[Transfer] = []
        self.ends: dict[int, int] = {}
        self.came: dict[int, int] = {}

    def wire(self, link: Link, src: Node) -> Wire:
        after_ps = link.latency_ps + self.overheads_ps[link.dst]
        return Wire(self.ticks_each(link.bw_gbs), after_ps * self.ticks_a_ps, self.takes_turns(src))

    def takes_turns(self, src: Node) -> bool:
        """Whether *src* has several transfers under way, or the parts of one in several slices."""
        return not (has_one_channel(src) or (sends_one_by_one(src) and not self.is_interleaved))

    def ports_of(self, node: Node) -> Iterator[tuple[str, Port]]:
        each = self.ticks_each(exact(node.attrs["bw_gbs"]))
        latency = ps_of(node, "latency_ns") * self.ticks_a_ps
        port = Port(each, latency)
        yield "read", port
        yield "write", Port(each, latency) if node.attrs.get("ports") == "separate" else port

    def ticks_each(self, bw_gbs: Fraction) -> int:
        ticks = 1000 / bw_gbs / self.grains_a_byte * self.ticks_a_ps
        assert ticks.denominator == 1
        return ticks.numerator

    def run(self, transfers: Sequence[Transfer]) -> list[Fraction]:
        """When each transfer ends, in picoseconds. Of two requests that come at once, the one called first goes first:
        transfers are listed in the order in which they were called."""
        self.transfers = list(transfers)
        for number, transfer in enumerate(transfers):
            self.at(transfer.start_ps * self.ticks_a_ps, self.start, number)
        while self.events:
            self.now, _, _, step, argument = heappop(self.events)
            step(argument)
        return [Fraction(self.ends[number], self.ticks_a_ps) for number in range(len(transfers))]

    def at(self, t: int, step: Callable[[Any], None], argument: Any, place: int | None = None) -> None:
        """Of the arrivals at memories in one tick, which have a *place* below 0, the lowest goes first."""
        self.event_order += 1
        heappush(self.events, (t, self.event_order if place is None else place, self.event_order, step, argument))

    def start(self, number: int) -> None:
        transfer = self.transfers[number]
        if transfer.kind == "read" or not transfer.nbytes:
            step = self.request if transfer.kind == "read" else self.end
            place = number - len(self.transfers)
            self.at(self.now + self.latency(transfer.src, transfer.dst), step, number, place)
            return
        for burst in self.bursts(number, transfer.src, transfer.dst):
            self.enter(burst)

    def bursts(self, number: int, src: str, dst: str) -> Iterator[Burst]:
        way = self.way(src, dst)
        left = self.grains_on_links(self.transfers[number])
        while left:
            size = min(left, self.burst)
            left -= size
            yield Burst(number, size, not left, way)

    def way(self, src: str, dst: str) -> tuple[Wire, ...]:
        """The links from one node to another, with the ports of DMAs at the ends."""
        wires = [self.wires[link.src, link.dst] for link in self.router.route(src, dst).links]
        ends = self.dma_ports.get((src, "away")), self.dma_ports.get((dst, "back"))
        return tuple(wire for wire in (ends[0], *wires, ends[1]) if wire is not None)

    def grains_on_links(self, transfer: Transfer) -> int:
        """The grains of a transfer with its headers."""
        nbytes = transfer.nbytes
        if not isinstance(self.packets, UnsetType):
            nbytes += math.ceil(nbytes / self.packets.payload_nbytes) * self.packets.header_nbytes
        return nbytes * self.grains_a_byte

    def latency(self, src: str, dst: str) -> int:
        return sum(self.wires[link.src, link.dst].after for link in self.router.route(src, dst).links)

    def enter(self, burst: Burst) -> None:
        """A burst comes to a link."""
        wire = burst.way[0]
        wire.round.setdefault(burst.number if wire.has_turns else 0, deque()).append(burst)
        if not wire.is_busy:
            self.carry(wire)

    def carry(self, wire: Wire) -> None:
        """A link takes a burst of the queue whose turn it is, which then goes behind the others."""
        turn, queue = next(iter(wire.round.items()))
        burst = queue.popleft()
        if queue:
            wire.round.move_to_end(turn)
        else:
            del wire.round[turn]
        wire.is_busy = True
        end = self.now + burst.size * wire.ticks_each
        self.at(end, self.carried, wire)
        self.forward(
            Burst(burst.number, burst.size, burst.is_last, burst.way[1:]), self.now + wire.after, end + wire.after
        )

    def carried(self, wire: Wire) -> None:
        wire.is_busy = False
        if wire.round:
            self.carry(wire)

    def forward(self, burst: Burst, head: int, tail: int) -> None:
        """The first and the last byte of a burst are at the next link, or at the end of the leg, then."""
        transfer = self.transfers[burst.number]
        if burst.way:
            self.at(max(head, tail - burst.size * burst.way[0].ticks_each), self.enter, burst)
        elif transfer.kind == "write":
            self.at(tail, self.write, burst, burst.number - len(self.transfers))
        elif burst.is_last:
            self.at(tail, self.end, burst.number)

    def request(self, number: int) -> None:
        """The request of a read comes to its memory: all of its bytes come at once."""
        transfer = self.transfers[number]
        if transfer.dst in self.banked:
            self.read_banks(number, transfer)
            return
        port = self.ports[transfer.dst, "read"]
        size = transfer.nbytes * self.grains_a_byte
        first = port.serve(size, self.now) + port.latency
        self.send(number, first, first + size * port.ticks_each)

    def read_banks(self, number: int, transfer: Transfer) -> None:
        now_ps = self.now // self.ticks_a_ps
        memory = Rectangle(transfer.offset, 1, transfer.nbytes, transfer.nbytes)
        first, last = (
            each * self.ticks_a_ps for each in self.banked[transfer.dst].reserve(now_ps, memory, now_ps, False)
        )
        self.send(number, first, last)

    def send(self, number: int, first: int, last: int) -> None:
        """The bytes of a read leave its memory evenly from *first* to *last*, with their headers."""
        transfer, sent = self.transfers[number], 0
        grains = self.grains_on_links(transfer)
        for part in self.bursts(number, transfer.dst, transfer.src):
            head, tail = (first + (last - first) * at // grains for at in (sent, sent + part.size))
            self.forward(part, head, tail)
            sent += part.size

    def write(self, burst: Burst) -> None:
        """The last byte of a burst comes to its memory, which may have served the others as they came."""
        transfer = self.transfers[burst.number]
        port = self.ports[transfer.dst, "write"]
        came, grains = self.came.get(burst.number, 0), self.grains_on_links(transfer)
        self.came[burst.number] = came + burst.size
        payload = transfer.nbytes * self.grains_a_byte
        size = (came + burst.size) * payload // grains - came * payload // grains
        port.serve(size, self.now - size * port.ticks_each)
        if burst.is_last:
            back = self.latency(transfer.dst, transfer.src)
            self.at(port.free + port.latency + back, self.end, burst.number)

    def end(self, number: int) -> None:
        self.ends[number] = self.now


ONE_CHANNEL = ("builtin.hbm_fixed", "builtin.sram")


def has_one_channel(node: Node) -> bool:
    """Whether *node* is a memory that serves one read after the other."""
    return node.impl in ONE_CHANNEL or ("mapping" in node.attrs and "PC" not in node.attrs["mapping"])


def sends_one_by_one(node: Node) -> bool:
    """Whether *node* is a DMA with one transfer under way at a time."""
    return node.kind is NodeKind.PE_DMA and node.attrs.get("outstanding", 1) == 1


def port_gbs(node: Node) -> Fraction | None:
    """The bandwidth of the port of a DMA, if the DMA has one."""
    width = node.attrs.get("port_nbytes")
    return None if width is None else exact(width) * exact(node.attrs["port_clock_ghz"])


def overhead_ps(node: Node) -> int:
    return ps_of(node, "overhead_ns") if node.kind in FORWARDING else 0


def ps_of(node: Node, attribute: str) -> int:
    """An attribute in ns as whole picoseconds, rounded up."""
    return math.ceil(exact(node.attrs.get(attribute, 0)) * 1000)
