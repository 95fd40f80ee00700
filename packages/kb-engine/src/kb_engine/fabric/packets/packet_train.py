"""PacketTrain: the packets of one transfer, one behind the other over the links of one leg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kb_engine.fabric.link import LinkState


class TrainLink(Protocol):
    """The interface of a link for the packets on it, with the buffer at its end."""

    state: LinkState

    @property
    def is_full(self) -> bool:
        """Whether a packet waits for room in the buffer, and too few packets of the buffer have begun to leave."""

    @property
    def first_buffered(self) -> Packet | None:
        """The packet in the buffer that leaves next and has not begun to."""

    def ask(self, packet: Packet) -> None:
        """Queues *packet*, the first packet that waits at its place, for the link from now on."""

    def let_go(self, packet: Packet, end_ps: int) -> None:
        """*packet* begins to leave the buffer now, and its last byte leaves at *end_ps*."""


class Passenger(Protocol):
    """The interface of the transfer whose bytes the packets carry, for links."""

    def packet_comes(self, first_byte: int, nbytes: int, head_ps: int, tail_ps: int) -> None:
        """*nbytes* from byte *first_byte* on come to the end of the leg from *head_ps* to *tail_ps*."""


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
    def link(self) -> TrainLink:
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
    which they began.
    """

    __slots__ = ("_head_ps", "_packet_nbytes", "_span_ps", "links", "nbytes", "number", "passenger")

    def __init__(
        self,
        number: int,
        passenger: Passenger,
        links: Sequence[TrainLink],
        sizes: tuple[int, int],
        times_ps: tuple[int, int],
    ) -> None:
        self.number = number
        self.passenger = passenger
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
