"""What the engine needs of the blocks it talks to itself: a PE's CPU and scheduler, and what stands on the fabric."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from kb_engine.block.completion_queue import CompletionQueue
from kb_engine.block.component import ComponentBase, SpecT
from kb_engine.block.feeding import Feeding
from kb_engine.block.in_flight import PipelineContext, PipelineError, TileToken
from kb_engine.memory.page_table import PageTable
from kb_engine.timing.interning import interned
from kb_messages import (
    Command,
    CompletionRecord,
    DispatchWait,
    MmuMessage,
    MmuUnmap,
    PipelinePlan,
    Rectangle,
    Request,
    SubmittedCommand,
)


class CommandIssuer(ComponentBase[SpecT]):
    """PE_CPU: runs the kernel; its commands reach the scheduler's submission queue and nothing else."""

    @property
    def issues_ahead(self) -> bool:
        """Whether a call returns when its command is issued, and a later one waits for its operands; else it returns
        when the command is done, unless it is a composite. Pure."""
        return False

    @abstractmethod
    def issue_ps(self, command: Command) -> int:
        """Picoseconds between a command's call in the kernel and its arrival at the submission queue. Pure."""

    on_request: Callable[[Request], None]

    def receive(self, request: Request) -> None:
        """What M_CPU sent is here now: a launch, whose kernel starts at its target, or a message for the PE's MMU."""
        self.on_request(request)


class CommandScheduler(ComponentBase[SpecT]):
    """PE_SCHEDULER: plans commands, owns the in-flight table and the tile buffers, feeds tiles to the first blocks.

    It publishes a record of every command that is done to `completions`, which the program on the PE reads.
    """

    __slots__ = ("completions",)

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.completions = CompletionQueue()

    @property
    @abstractmethod
    def reserved_nbytes(self) -> int:
        """TCM bytes, from offset 0 on, that only this block's tile buffers use."""

    @abstractmethod
    def plan(self, submitted: SubmittedCommand) -> PipelinePlan:
        """The plan for a command. Pure. Raises PlanError when no plan fits this PE."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether the submission queue takes another command."""

    @abstractmethod
    def submit(self, context: PipelineContext) -> None:
        """Put a planned command into the submission queue; the caller has checked `has_room`."""

    @abstractmethod
    def when_room(self, call: Callable[[], None]) -> None:
        """Call *call* once, when the submission queue has room again; first come, first served."""

    def complete(self, context: PipelineContext) -> None:
        """All tiles of a command are done: publish its record. Override it to forget the command first."""
        submitted = context.submitted
        self.completions.publish(
            CompletionRecord(
                command_seq=submitted.command_seq,
                pe=submitted.pe,
                t_ps=self.clock._now,
                n_tiles=context.plan.n_tiles,
            )
        )

    def dispatch_waits(self, token: TileToken) -> Sequence[tuple[DispatchWait, int]]:
        """For the trace, asked when *token* is put into its first queue: what it waited for since its command was
        submitted, each with the picosecond at which that wait ended, in order. What is left is `SCHEDULER`'s."""
        return ()

    def feeding(self) -> Feeding | None:
        """For the report of a simulation that is stuck: the tile that waits to be fed."""
        return None


class Initiator(ComponentBase[SpecT]):
    """A block that starts transfers, one read and one write at a time at most; the fabric counts on that."""

    __slots__ = ()

    @property
    def lead_ps(self) -> int:
        """Picoseconds between a call of the fabric and the start of that transfer, at least: the fabric counts on it.

        Asked once, before `connect`. The more it is, the more often a read takes an event less.
        """
        return 0


class AddressTranslator(ComponentBase[SpecT]):
    """PE_MMU: the page table of its PE, and what it costs to look pages up. A wire leads to it from the PE's DMA."""

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.pages = PageTable(self.node_id, self.page_nbytes)

    @property
    @abstractmethod
    def page_nbytes(self) -> int:
        """Bytes of a page. Pure."""

    @abstractmethod
    def lookup_ps(self, memory: Rectangle) -> int:
        """Picoseconds to translate *memory*, at a virtual address: its pages in order, each once.

        Called in the order of the transfers; what was looked up may be remembered.
        """

    @abstractmethod
    def forget(self, virtual: int, nbytes: int) -> None:
        """Remember nothing of these pages: they were unmapped."""

    def apply(self, message: MmuMessage) -> None:
        """Do as *message* says, from now on. Raises AddressError for what the page table refuses."""
        self.pages.obey(message)
        if isinstance(message, MmuUnmap):
            self.forget(message.virtual, message.nbytes)


class ForwardingComponent(ComponentBase[SpecT]):
    """A node that bytes pass through: router, crossbar, bridge."""

    @abstractmethod
    def overhead_ps(self) -> int:
        """Latency the head of a transfer pays here. Pure."""


class MemoryComponent(ComponentBase[SpecT]):
    """A memory behind the fabric. `memory` of a request is the rectangle asked for, at its physical address.

    For the fabric: `awaited` counts the requests under way, `promised_ps` is when the last one arrives that was
    reserved ahead of its arrival.
    """

    __slots__ = ("awaited", "busy_ps", "promised_ps", "read_nbytes", "written_nbytes")

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.awaited = 0
        self.promised_ps = 0
        self.busy_ps = 0
        self.read_nbytes = 0
        self.written_nbytes = 0

    @abstractmethod
    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Serve a request whose head arrives at *t_ps*, its last byte not before *last_byte_ps*.

        Called in order of arrival, at *t_ps* or before. Returns when the first and the last byte leave (read), or twice
        when the write is committed. What was promised before does not change.
        """


_Cost = tuple[int, int, int]
"""Bytes of a request, how long they hold the channel, and its latency."""

_NO_COST: Final[_Cost] = (-1, 0, 0)


class SingleChannelMemory(MemoryComponent[SpecT]):
    """A memory that serves one request after the other, at a cost that follows from its size alone."""

    __slots__ = ("_costs", "_last", "free_ps")

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.free_ps = 0
        self._costs: tuple[dict[int, _Cost], ...] = ({}, {})
        self._last = [_NO_COST, _NO_COST]

    @abstractmethod
    def latency_ps(self, nbytes: int, write: bool) -> int:
        """From the start of a request's service to its first byte (read) or its commit (write). Pure."""

    @abstractmethod
    def occupancy_ps(self, nbytes: int, write: bool) -> int:
        """How long a request's bytes hold the channel. Pure."""

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """First come, first served; the latency of one request overlaps the bytes of the one before.

        Bytes that come in slowly are buffered: they hold the channel for their own time and no longer.
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
