"""HeldLink: a link that one packet holds at a time, and the buffer at its end. PacketTrain: the packets of a transfer.

This is virtual cut-through (Kermani and Kleinrock, "Virtual cut-through: a new computer communication switching
technique", Computer Networks 3 (4), 1979). Links and buffers are given to whole packets, which is the packet-buffer
flow control of Dally and Towles ("Principles and Practices of Interconnection Networks", 2004, chapter 13). A packet
begins to leave when its head is there, the link is free, and the buffer behind has room for the whole packet. So a
packet never stops halfway, and when it begins to leave, it is known when it will have left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from simpy.events import NORMAL

from kb_engine.fabric.link import LinkState
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import ns_text
from kb_messages import SimulationStuckError

_LAST: Final = NORMAL + 1
"""The priority of decisions: after everything else that happens in their picosecond."""


class Packet:
    """One packet on its way. `first_byte` is its place in the transfer, and `hop` the number of the link that is next.

    Its last byte is at the node before that link at `tail_ps`.
    """

    __slots__ = ("first_byte", "hop", "nbytes", "number", "tail_ps", "train")

    def __init__(self, train: PacketTrain, number: int, first_byte: int, nbytes: int, tail_ps: int) -> None:
        self.train = train
        self.number = number
        self.first_byte = first_byte
        self.nbytes = nbytes
        self.hop = 0
        self.tail_ps = tail_ps

    @property
    def link(self) -> HeldLink:
        """The link that is next."""
        return self.train.links[self.hop]

    @property
    def is_at_last_link(self) -> bool:
        """Whether the leg ends behind the link that is next."""
        return self.hop + 1 == len(self.train.links)

    @property
    def is_last(self) -> bool:
        """Whether the transfer ends with this packet."""
        return self.first_byte + self.nbytes == self.train.nbytes

    def go_on(self, tail_ps: int) -> None:
        """The packet is on its way to the node behind the next link, and its last byte is there at *tail_ps*."""
        self.hop += 1
        self.tail_ps = tail_ps


class PacketTrain:
    """*nbytes* with headers, in packets of *packet_nbytes* and a shorter last one, over *links*.

    They are there for the first link evenly from *head_ps* to *tail_ps*. Trains have a `number` each, in the order in
    which they began. `comes(first byte, bytes, head, tail)` is called when a packet has left the last link, with the
    times at which its first and its last byte are at the end of the leg.
    """

    __slots__ = ("_head_ps", "_packet_nbytes", "_span_ps", "comes", "links", "nbytes", "number")

    def __init__(
        self,
        number: int,
        comes: Callable[[int, int, int, int], None],
        links: Sequence[HeldLink],
        sizes: tuple[int, int],
        times_ps: tuple[int, int],
    ) -> None:
        self.number = number
        self.comes = comes
        self.links = links
        self.nbytes, self._packet_nbytes = sizes
        self._head_ps, tail_ps = times_ps
        self._span_ps = tail_ps - self._head_ps

    def packet(self, number: int) -> Packet:
        """Packet *number*, at the source."""
        first_byte = number * self._packet_nbytes
        nbytes = min(self._packet_nbytes, self.nbytes - first_byte)
        return Packet(self, number, first_byte, nbytes, self.there_ps(first_byte + nbytes))

    def there_ps(self, nbytes: int) -> int:
        """When the first *nbytes* are at the source, rounded up."""
        return self._head_ps - (-self._span_ps * nbytes // self.nbytes)


class HeldLink:
    """One direction of a link. The packet that has waited longest is next; of equals, the transfer that began first.

    *after_ps* is the latency to the next link. The buffer behind the link has room for *buffer_nbytes* of packets that
    go on, and is a queue: one packet leaves at a time, in the order in which they came. With None there is room for
    all, and packets pass each other. A packet that has left the buffer counts for *credit_ps* more.
    """

    __slots__ = (
        "_after_ps",
        "_asking",
        "_buffer_nbytes",
        "_buffered",
        "_clock",
        "_credit_ps",
        "_credits",
        "_decides_ps",
        "_free_nbytes",
        "_free_ps",
        "_leaves_ps",
        "is_full",
        "state",
    )

    def __init__(
        self, clock: Clock, state: LinkState, after_ps: int, buffer_nbytes: int | None, credit_ps: int
    ) -> None:
        self.state = state
        self.is_full = False
        self._clock = clock
        self._after_ps = after_ps
        self._buffer_nbytes = buffer_nbytes
        self._free_nbytes = buffer_nbytes or 0
        self._credit_ps = credit_ps
        self._credits: deque[tuple[int, int]] = deque()
        self._asking: list[tuple[int, int, int, Packet]] = []
        self._buffered: deque[Packet] = deque()
        self._free_ps = self._leaves_ps = 0
        self._decides_ps = -1

    @property
    def first_buffered(self) -> Packet | None:
        """The packet in the buffer that leaves next and has not begun to."""
        return self._buffered[0] if self._buffered else None

    def ask(self, packet: Packet) -> None:
        """Queues *packet*, the first packet that waits at its place, for the link from now on."""
        heappush(self._asking, (self._clock.now_ps, packet.train.number, packet.number, packet))
        self._plan()

    def let_go(self, packet: Packet, end_ps: int) -> None:
        """*packet* begins to leave the buffer now, and its last byte leaves at *end_ps*."""
        if self._buffer_nbytes is None:
            return
        self._buffered.popleft()
        self._leaves_ps = end_ps
        self._credits.append((end_ps + self._credit_ps, packet.nbytes))
        if self._buffered:
            behind = self._buffered[0]
            self._at(end_ps, behind.link.ask, behind)
        if self._asking:
            self._plan()

    def _plan(self) -> None:
        """Schedules the decision for the moment at which the link is free and has room for the first packet, if it is
        known.
        """
        room_ps = self._room_ps(self._asking[0][3])
        self.is_full = room_ps is None
        if room_ps is None:
            circle = circle_through(self)
            if circle:
                raise circle_error(circle, self._clock.now_ps)
            return
        decides_ps = max(self._clock.now_ps, self._free_ps, room_ps)
        if decides_ps != self._decides_ps:
            self._decides_ps = decides_ps
            self._clock.push((decides_ps, _LAST, next(self._clock.event_order), self._decide, decides_ps))

    def _room_ps(self, packet: Packet) -> int | None:
        """The picosecond at which the buffer has room for *packet*; None if a packet has yet to leave the buffer."""
        if self._buffer_nbytes is None or packet.is_at_last_link:
            return 0
        now, credited = self._clock.now_ps, self._credits
        while credited and credited[0][0] <= now:
            self._free_nbytes += credited.popleft()[1]
        free = self._free_nbytes
        if free >= packet.nbytes:
            return 0
        for t_ps, nbytes in credited:
            free += nbytes
            if free >= packet.nbytes:
                return t_ps
        return None

    def _decide(self, decides_ps: int) -> None:
        """Gives the link to the first packet now, unless a later `_plan` has replaced this moment."""
        if decides_ps != self._decides_ps:
            return
        self._decides_ps = -1
        now, packet = self._clock.now_ps, self._asking[0][3]
        room_ps = self._room_ps(packet)
        if room_ps is not None and max(room_ps, self._free_ps) <= now:
            heappop(self._asking)
            self._start(packet)
        if self._asking:
            self._plan()

    def _start(self, packet: Packet) -> None:
        """Lets *packet* begin to leave now.

        Durations of packets are rounded so that the duration of their transfer is exact.
        """
        now, rate, train = self._clock.now_ps, self.state.rate, packet.train
        first = packet.first_byte
        end_ps = max(now + rate.ps(first + packet.nbytes) - rate.ps(first), packet.tail_ps)
        self._free_ps = end_ps
        head_ps, tail_ps = now + self._after_ps, end_ps + self._after_ps
        goes_on = not packet.is_at_last_link
        if goes_on and self._buffer_nbytes is not None:
            self._free_nbytes -= packet.nbytes
        if packet.hop:
            train.links[packet.hop - 1].let_go(packet, end_ps)
        elif not packet.is_last:
            behind = train.packet(packet.number + 1)
            self._at(max(end_ps, train.there_ps(behind.first_byte)), self.ask, behind)
        if not goes_on:
            train.comes(first, packet.nbytes, head_ps, tail_ps)
            return
        packet.go_on(tail_ps)
        self._at(head_ps, self._come, packet)

    def _come(self, packet: Packet) -> None:
        """The head of *packet* is behind the link, in the buffer."""
        if self._buffer_nbytes is not None:
            self._buffered.append(packet)
            if len(self._buffered) > 1:
                return
            if self._leaves_ps > self._clock.now_ps:
                self._at(self._leaves_ps, packet.link.ask, packet)
                return
        packet.link.ask(packet)

    def _at(self, t_ps: int, function: Callable[[Packet], None], packet: Packet) -> None:
        self._clock.push((t_ps, NORMAL, next(self._clock.event_order), function, packet))


def circle_through(link: HeldLink) -> list[HeldLink]:
    """The links whose full buffers wait for each other, beginning with *link*. Empty if it is in no circle.

    The first packet of a full buffer waits for the link that it wants, which waits for room in its own buffer.
    """
    found, here = [link], link
    while (packet := here.first_buffered) is not None:
        here = packet.link
        if here is link:
            return found
        if not here.is_full or here in found:
            break
        found.append(here)
    return []


def circle_error(circle: Sequence[HeldLink], now_ps: int) -> SimulationStuckError:
    """The error of a simulation in which the buffers behind the links of *circle* wait for each other."""
    names = [f"{each.state.link.src} -> {each.state.link.dst}" for each in (*circle, circle[0])]
    waits = ", which waits for room behind ".join(names)
    return SimulationStuckError(
        "fabric",
        f"a circle of {len(circle)} full buffers at {ns_text(now_ps)}: {waits}",
        "a packet in one of them that can go on",
        "a larger `buffer_nbytes` puts the circle off, and routes that close no circle rule it out",
    )
