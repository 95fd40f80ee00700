"""Roles of the blocks that stand on the fabric: they start transfers, pass bytes on, or serve requests as memories."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple

from kb_engine.block.component import ComponentBase, SpecT
from kb_engine.block.gates import Gate
from kb_engine.block.in_flight import PipelineError
from kb_engine.block.state_visitor import COUNT, DEADLINE, State
from kb_engine.timing.interning import interned
from kb_engine.timing.units import Rate
from kb_messages import Rectangle, StageType


class TransferSource(ComponentBase[SpecT]):
    """A block that calls the fabric to start reads and writes."""

    __slots__ = ()

    @property
    def lead_ps(self) -> int:
        """The least number of picoseconds between a call of the fabric and the start of that transfer.

        The fabric asks once, before `connect`, and relies on it. With a larger lead, more reads save an event.
        """
        return 0


class Initiator(TransferSource[SpecT]):
    """A source of at most `outstanding` reads and `outstanding` writes at a time. The fabric relies on these limits.

    `needs_no_queue` says that `begin` depends on its token, the time and the fabric alone. A command that is alone on
    its PE is then served without the queue in front of the block. A subclass has to state it anew.
    """

    __slots__ = ()
    needs_no_queue: ClassVar[bool] = False

    @property
    def outstanding(self) -> int:
        """The reads that may be under way at once, and the writes. At least 1.

        The fabric asks once, before `connect`. Above 1, the block's own transfers can meet on its links, and its stage
        servers are TransferServers.
        """
        return 1

    @property
    def port_gbs(self) -> Fraction | None:
        """The bandwidth, in GB/s, of the port through which all links of the block take its data, and of that through
        which it gets data. None if the links alone bound them. The fabric asks once, before `connect`.
        """
        return None

    @property
    def max_pieces(self) -> int:
        """The pieces that one transfer may have. A kernel's access of more pieces is several transfers."""
        return 1 << 32

    def issued_ps(self, stage_type: StageType) -> int:
        """When the transfer of *stage_type* that has just begun lets the next one begin: at the end of its set-up.

        Asked after each `begin` if `outstanding` is above 1. Not before now.
        """
        return self.clock.now_ps


class ForwardingComponent(ComponentBase[SpecT]):
    """A node that bytes pass through: a router, a crossbar, a bridge."""

    @abstractmethod
    def overhead_ps(self) -> int:
        """Picoseconds that the head of a transfer takes to pass. Pure."""


class BufferedComponent(ForwardingComponent[SpecT]):
    """A node that forwards packets from buffers of a size, one at the end of each link that leads to the node."""

    @property
    @abstractmethod
    def buffer_nbytes(self) -> int:
        """Bytes of packets, with headers, for which the buffer of a link has room. The fabric asks once."""

    @abstractmethod
    def credit_ps(self) -> int:
        """Picoseconds until the node before a link knows that a packet has left the buffer of the link. Pure."""


class MemoryPart(NamedTuple):
    """A part of a memory that moves bytes one after the other, and the bytes that it was asked to move so far.

    `name` is empty for the memory itself and for its ports or channels side by side; another part is, for example, the
    `cache` in front of it. `ps_each` are the picoseconds of a byte at the full rate, None where no rate is known. The
    part is done with all its bytes at `free_ps`, which is 0 where every request waits for its own bytes.
    """

    name: str
    read_nbytes: int
    written_nbytes: int
    ps_each: Fraction | None
    free_ps: int = 0


class MemoryComponent(ComponentBase[SpecT]):
    """A memory behind the fabric. `memory` of a request is the requested rectangle, at its physical address.

    A class that defines `free_times` says that its requests take the same time at any moment and at any address, once
    these attributes are not after now. The contract suite checks it. Then commands that use the memory can be isolated
    (`kb_engine.fastforward.isolated`). A subclass has to state it anew.

    For reports, `busy_ps` adds up the time of requests, and `read_nbytes` and `written_nbytes` their bytes.
    """

    __slots__ = ("busy_ps", "read_nbytes", "written_nbytes")
    state: ClassVar[State] = dict.fromkeys(__slots__, COUNT)
    buffers_writes: ClassVar[bool] = False
    """Whether a write comes to `reserve` as a whole when its last byte is there, even if other requests come between.
    """
    reorders: ClassVar[bool] = False
    """Whether a request comes to `request`, because later ones may be served first. Then `buffers_writes` is True."""
    free_times: ClassVar[tuple[str, ...]] = ()

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.busy_ps = 0
        self.read_nbytes = 0
        self.written_nbytes = 0

    @property
    def parts(self) -> tuple[MemoryPart, ...]:
        """The parts of the memory that move bytes side by side, for reports. Each part stands in one place.

        By default one part, with the bytes of all requests, at the `bw_gbs` of the Spec, in GB/s, if it has one.
        """
        bw_gbs = getattr(self.spec, "bw_gbs", None)
        ps_each = Rate.from_gbs(bw_gbs).ps_each if bw_gbs else None
        return (MemoryPart("", self.read_nbytes, self.written_nbytes, ps_each),)

    @property
    def unwritten_nbytes(self) -> int:
        """Bytes that were written to the memory and that it still has to write further: dirty lines of a cache."""
        return 0

    @property
    def burst_nbytes(self) -> int:
        """Bytes of a burst. A write that comes in parts is cut between bursts.

        Source: JEDEC JESD238 (HBM3), 64 bytes for an access of a pseudo-channel.
        """
        return 64

    @property
    def cache_nbytes(self) -> int:
        """The bytes of a cache in front of the memory, 0 without one. A memory with a cache defines `warm`, too."""
        return 0

    def warm(self, memory: Rectangle, written: bool) -> None:
        """Brings the bytes of *memory* into the cache, between launches and without time, as an earlier kernel leaves
        bytes that it read or, with *written*, wrote. A memory without a cache does nothing.
        """

    @property
    def sends_in_order(self) -> bool:
        """Whether reads leave one after the other. If not, their data share the link away from the memory."""
        return True

    @property
    def has_write_port(self) -> bool:
        """Whether writes have a port of their own, so that reads and writes do not wait for each other."""
        return False

    @abstractmethod
    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Serves a request whose head arrives at *t_ps*, its last byte not before *last_byte_ps*.

        Called in order of arrival, at *t_ps* or before. A write that other requests interrupt comes in parts, each a
        request of its own. Returns two times: when the first and the last byte leave (read), or the time of the commit,
        twice (write). A returned time never changes.
        """

    def request(self, memory: Rectangle, last_byte_ps: int, write: bool, then: Callable[[int, int], None]) -> None:
        """Takes a request that is here now, its last byte not before *last_byte_ps*; only of a memory that reorders.

        `then(first, last)`, now or later, gets the two times of `reserve`, which are not before that moment.
        """
        raise NotImplementedError(f"{type(self).__name__} reorders requests and has no `request`")

    def held_ps(self, memory: Rectangle, write: bool) -> tuple[int, int] | None:
        """From when to when the bytes of the request hold their port; None if the memory does not say.

        Asked right after `reserve` of the request, and only for an op log. A memory that says serves the requests of a
        port one after the other, in the order of the calls. A read's first byte leaves a latency after the begin, and a
        write is committed a latency after the end or after its last byte, whichever is later.
        """
        return None

    def read_latency_ps(self, nbytes: int) -> int | None:
        """Picoseconds from when the bytes of a read of *nbytes* begin to hold their port to its first byte.

        None if they do not follow from the size. The op log asks `held_ps` about each read then. A subclass that
        changes `reserve` or `held_ps` has to say it anew. Pure.
        """
        return None

    def idle_ps(self, memory: Rectangle, write: bool) -> tuple[int, int]:
        """The latency of a request with nothing else under way, and the time of its bytes.

        Pure, and for estimates alone: a scheduler chooses tiles by them, of requests at the begin of the memory. A
        memory that does not say counts as free.
        """
        return 0, 0


def said_read_latency_ps(memory: MemoryComponent[Any], nbytes: int) -> int | None:
    """The answer of `read_latency_ps` of *memory*; None where a subclass changed the times of requests and not that
    method.
    """
    for owner in type(memory).__mro__:
        own = vars(owner)
        if "read_latency_ps" in own:
            return memory.read_latency_ps(nbytes)
        if "reserve" in own or "held_ps" in own:
            return None
    return None


class Scratchpad(MemoryComponent[SpecT]):
    """PE_TCM: the memory of a PE, where FETCH and STORE of the PE have a way in of their own."""

    __slots__ = ()

    @abstractmethod
    def access_gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """The gates that a service of *stage_type*, FETCH or STORE, has to pass. Asked once, after `connect`."""

    @abstractmethod
    def access_ps(self, nbytes: int) -> int:
        """Picoseconds that a FETCH or a STORE of *nbytes* takes. Pure."""

    def least_access_ps(self, nbytes: int) -> Fraction | None:
        """The part of `access_ps` that *nbytes* take at the full rate of their port; None where no rate is known.

        Pure, and for reports alone. By default the bytes over the `bw_gbs` of the Spec, if it has one.
        """
        bw_gbs = getattr(self.spec, "bw_gbs", None)
        return nbytes * Rate.from_gbs(bw_gbs).ps_each if bw_gbs else None


_Cost = tuple[int, int, int]
"""Bytes of a request, how long they hold the channel, and its latency."""

_NO_COST: Final[_Cost] = (-1, 0, 0)


class SingleChannelMemory(MemoryComponent[SpecT]):
    """A memory that serves one request after the other. The cost of a request follows from its size alone."""

    __slots__ = ("_costs", "_last", "free_ps")

    state: ClassVar[State] = {"free_ps": DEADLINE}
    caches: ClassVar[tuple[str, ...]] = ("_costs", "_last")

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.free_ps = 0
        self._costs: tuple[dict[int, _Cost], ...] = ({}, {})
        self._last = [_NO_COST, _NO_COST]

    @abstractmethod
    def latency_ps(self, nbytes: int, write: bool) -> int:
        """Picoseconds from the start of a request's service to its first byte (read) or its commit (write). Pure."""

    @abstractmethod
    def occupancy_ps(self, nbytes: int, write: bool) -> int:
        """Picoseconds that a request's bytes hold the channel. Pure."""

    def idle_ps(self, memory: Rectangle, write: bool) -> tuple[int, int]:
        """The two costs of the request's size."""
        nbytes = memory.nbytes
        return self.latency_ps(nbytes, write), self.occupancy_ps(nbytes, write)

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """First come, first served. The latency of a request overlaps the bytes of the request before.

        Bytes that come in slowly are buffered, and hold the channel only for their own time.
        """
        nbytes = memory.rows * memory.row_nbytes
        known_nbytes, occupied, latency = self._last[write]
        if nbytes != known_nbytes:
            _, occupied, latency = self._last[write] = self._cost(nbytes, write)
        start = t_ps if t_ps > self.free_ps else self.free_ps
        self.free_ps = end = start + occupied
        if end < last_byte_ps:
            end = last_byte_ps
        self.busy_ps += occupied
        if write:
            self.written_nbytes += nbytes
            return end + latency, end + latency
        self.read_nbytes += nbytes
        return start + latency, end + latency

    def held_ps(self, memory: Rectangle, write: bool) -> tuple[int, int] | None:
        """The time of the request's bytes, up to the moment at which the channel is free again."""
        _, occupied, _ = self._last[write]
        return self.free_ps - occupied, self.free_ps

    def read_latency_ps(self, nbytes: int) -> int | None:
        """The latency of reads of the size."""
        return self._cost(nbytes, False)[2]

    def _cost(self, nbytes: int, write: bool) -> _Cost:
        cost = self._costs[write].get(nbytes)
        if cost is None:
            occupied, latency = self.occupancy_ps(nbytes, write), self.latency_ps(nbytes, write)
            if type(occupied) is not int or type(latency) is not int:
                got = f"{nbytes} bytes that take {occupied!r} and {latency!r}"
                raise PipelineError(self.node_id, got, "ints of picoseconds", "round up once")
            cost = interned((nbytes, occupied, latency))
            self._costs[write][nbytes] = cost
        return cost
