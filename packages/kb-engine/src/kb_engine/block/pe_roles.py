"""Roles of the blocks of a PE that the engine itself talks to: CPU, scheduler, MMU and message queue."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from kb_engine.block.component import ComponentBase, SpecT
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.stage_server import StageServer
from kb_engine.block.state_visitor import SIZE, State
from kb_engine.memory.page_table import PageTable
from kb_messages import (
    Command,
    CompletionRecord,
    DispatchWait,
    MmuMessage,
    MmuUnmap,
    PipelinePlan,
    Rectangle,
    Request,
    StageType,
    SubmittedCommand,
)


class IsolableWork(Protocol):
    """A command that a scheduler could begin now, with the state of its PE."""

    __slots__ = ()

    command: CommandInFlight

    @abstractmethod
    def begin(self) -> None:
        """Begins now. A command that has begun before, apart from the rest, begins anew."""

    @abstractmethod
    def place(self) -> None:
        """Cuts buffers and registers for the command now, as `begin` does, without beginning."""

    @abstractmethod
    def cuts(self) -> Any:
        """The present state, for `put_back`."""

    @abstractmethod
    def put_back(self, cuts: Any) -> None:
        """Restores *cuts*, and so undoes `begin` and `place`. The command is not in flight in any block."""

    @abstractmethod
    def end(self) -> None:
        """The command is done now, and no block knows that."""


class Isolation(Protocol):
    """Who closes the commands of a PE. A scheduler asks once of each command, by `wants` or by `missed`."""

    def wants(self, command: CommandInFlight) -> bool:
        """Whether *command*, which is alone on its PE, may be isolated. If not, the caller has to begin it."""

    def missed(self, command: CommandInFlight) -> None:
        """*command* is not alone on its PE."""

    def isolate(self, work: IsolableWork) -> bool:
        """Isolates the command of *work*, and returns whether it did.

        `work.end` is called when an isolated command is done. If False is returned, the caller has to begin the
        command.
        """


class CompletionQueue:
    """Records of finished commands, in the order in which they finished, until the program on the PE takes them.

    The queue has no bound of its own: it holds at most one record for each command whose completion was not taken.
    """

    def __init__(self) -> None:
        self._records: deque[CompletionRecord] = deque()
        self._reader: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._records)

    def read_by(self, reader: Callable[[], None]) -> None:
        """Calls *reader* after each record that enters from now on. It takes the records, and replaces any other."""
        self._reader = reader

    def publish(self, record: CompletionRecord) -> None:
        """Adds *record*. Only the scheduler calls this."""
        self._records.append(record)
        if self._reader is not None:
            self._reader()

    def take(self) -> CompletionRecord | None:
        """Removes and returns the oldest record, or None."""
        return self._records.popleft() if self._records else None


class CommandIssuer(ComponentBase[SpecT]):
    """PE_CPU: runs the kernel; its commands reach the scheduler's submission queue and nothing else."""

    @property
    def issues_ahead(self) -> bool:
        """Whether a call returns when its command is issued. Pure.

        A later call then waits for its operands. Otherwise a call returns when its command is done, unless the command
        is a composite.
        """
        return False

    @property
    def engine_queue_depth(self) -> int | None:
        """Commands that wait in the queue of each engine, where PE_CPU has such queues. Pure.

        Every call then returns when its command is in the queue. Needs `issues_ahead`.
        """
        return None

    @abstractmethod
    def issue_ps(self, command: Command) -> int:
        """Picoseconds between a command's call in the kernel and its arrival at the submission queue. Pure."""

    def call_ps(self) -> int:
        """Picoseconds of a call that issues no command, such as the receipt of a message or a signal. Pure."""
        return 0

    def program_ps(self) -> int:
        """Picoseconds to begin a program of a grid: to take its number and to set the kernel up. Pure."""
        return 0

    def startup_ps(self) -> int:
        """Picoseconds from a launch to the PE's first program: the launch is to begin so much later. Pure."""
        return 0

    on_request: Callable[[Request], None]

    def receive(self, request: Request) -> None:
        """A message of M_CPU arrives: a launch, whose kernel starts at its target, or a message for the PE's MMU."""
        self.on_request(request)


class FeederWait(NamedTuple):
    """The tile whose turn it is to be fed, and why it waits since `since_ps`. The report of a stuck simulation asks.

    `queue` is the full queue, if the tile waits for one. Otherwise `needs` names the missing resource. `held_by(token,
    ahead)` returns whether another tile, with the stages *ahead* still to come, holds the resource. `change` is the
    smallest change of a capacity that would free the tile, or "".
    """

    token: TileToken
    since_ps: int
    queue: StageServer | None = None
    needs: str = ""
    held_by: Callable[[TileToken, frozenset[StageType]], bool] = lambda *_: False
    change: str = ""


class Feeding(Protocol):
    """The feeder of a PE while it feeds the tiles of one command: the interface for code that skips tiles."""

    @property
    def next_op(self) -> int:
        """The first op of the tile that is made next."""

    def call_after_tile(self, tile: int, call: Callable[[int], None]) -> None:
        """Calls *call* once, after the event in which tile number *tile* of the current command is made.

        *call* gets the number of tiles that were made by then. Replaces an earlier call.
        """


class CommandScheduler(ComponentBase[SpecT]):
    """PE_SCHEDULER: plans commands, owns the in-flight table and the tile buffers, feeds tiles to the first blocks.

    It publishes a record of every command that is done to `completions`, which the program on the PE reads. For reports
    it sets `t_taken_ps`, `t_decoded_ps` and `t_fed_ps` of each command, and calls `tile_waited`. It calls
    `begins_to_feed` if tiles of its feeder can be skipped. It may ask `isolation`, if there is one, to isolate the
    command that it would begin.
    """

    __slots__ = ("completions", "isolation", "on_feed", "on_tile_waited")
    state: ClassVar[State] = {"completions": SIZE}

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.completions = CompletionQueue()
        self.on_tile_waited: Callable[[tuple[int, int, int]], None] | None = None
        self.on_feed: Callable[[CommandInFlight, Feeding], None] | None = None
        self.isolation: Isolation | None = None

    @property
    @abstractmethod
    def reserved_nbytes(self) -> int:
        """TCM bytes, from offset 0 on, that only this block's tile buffers use."""

    @abstractmethod
    def plan(self, submitted: SubmittedCommand) -> PipelinePlan:
        """The plan for a command. Pure. Raises PlanError when no plan fits this PE."""

    def shared_plan(self, submitted: SubmittedCommand) -> tuple[PipelinePlan, tuple[int, ...] | None]:
        """A plan for all commands that differ from *submitted* in addresses alone, and the addresses of this command.

        These are the addresses of its operands in memory, in the order of `PipelinePlan.addresses`. They are None where
        the plan has the addresses, because the scheduler shares no plans. Raises the PlanError of `plan`.
        """
        return self.plan(submitted), None

    def plan_of_all(self, like: Command, commands: Any) -> tuple[PipelinePlan, Sequence[Any]] | None:
        """The plan that *like* shares with *commands*, and the addresses of these.

        *commands* is one command with an array in the place of each address in which they differ, and so are the
        addresses. None where it is not known that all share one plan.
        """
        return None

    def decode_ps(self) -> int:
        """Picoseconds from the submission of a command until its first tile is fed, on an idle PE. Pure.

        Estimates ask. By default a scheduler decodes in no time.
        """
        return 0

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether the submission queue takes another command."""

    @abstractmethod
    def submit(self, context: CommandInFlight) -> None:
        """Puts a planned command into the submission queue. The caller has checked `has_room`."""

    @abstractmethod
    def when_room(self, call: Callable[[], None]) -> None:
        """Calls *call* once, when the submission queue has room again. Callers are served first come, first served."""

    def tile_waited(self, token: TileToken, in_order_ps: int) -> None:
        """*token* has its buffers now, which is later than its turn.

        The tiles that it must not overtake were fetched at *in_order_ps*.
        """
        if self.on_tile_waited is not None:
            self.on_tile_waited((token.first_op_id, in_order_ps, self.clock.now_ps))

    def begins_to_feed(self, context: CommandInFlight, feeding: Feeding) -> None:
        """The first tile of *context* is made next. A scheduler that never calls this has every tile simulated."""
        if self.on_feed is not None:
            self.on_feed(context, feeding)

    def complete(self, context: CommandInFlight) -> None:
        """All tiles of a command are done: publish its record. Override this to forget the command first.

        Raises PipelineError for a command that was never placed: the op log could not say where its tiles lay.
        """
        context.check_placed(self.node_id)
        submitted = context.submitted
        context.end(self.clock.now_ps)
        self.completions.publish(
            CompletionRecord(
                command_seq=submitted.command_seq,
                pe=submitted.pe,
                t_ps=context.t_done_ps,
                n_tiles=context.shared_plan.n_tiles,
            )
        )

    def dispatch_waits(self, token: TileToken) -> Sequence[tuple[DispatchWait, int]]:
        """The waits of *token* since its command was submitted, each with the picosecond at which the wait ended.

        The waits are in order of time. The trace asks when *token* is put into its first queue, and counts the rest of
        the time as `SCHEDULER`.
        """
        return ()

    def feeder_wait(self) -> FeederWait | None:
        """The tile that waits to be fed. The report of a stuck simulation asks."""
        return None


class MessageQueue(ComponentBase[SpecT]):
    """PE_QUEUE: where programs on other PEs send messages and signals to. It has a link to the rest of the chip.

    The engine keeps the state of channels and counters, and takes the places of the slots from the TCM of the PE. The
    block states depth and times alone.
    """

    @property
    @abstractmethod
    def depth(self) -> int:
        """The number of slots of each channel, at least 1. Pure."""

    @abstractmethod
    def doorbell_ps(self) -> int:
        """Picoseconds from the commit of a message, or a signal's arrival, until a waiting kernel goes on. Pure."""

    @abstractmethod
    def credit_ps(self) -> int:
        """Picoseconds from the moment at which a slot is given back until its credit leaves this block. Pure."""


class AddressTranslator(ComponentBase[SpecT]):
    """PE_MMU: the page table of its PE, and the cost of lookups. A wire leads to it from the PE's DMA.

    A DMA asks for lookups of transfers at virtual addresses alone, and a lookup schedules nothing. So programs without
    virtual addresses are skipped as on a chip without MMUs, whatever state the class has.
    """

    state: ClassVar[State] = ("pages",)

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.pages = PageTable(self.node_id, self.page_nbytes)

    @property
    @abstractmethod
    def page_nbytes(self) -> int:
        """Bytes of a page. Pure."""

    @abstractmethod
    def lookup_ps(self, memory: Rectangle) -> int:
        """Picoseconds to translate *memory*, which is at a virtual address: its pages in order, each once.

        Called in the order of the transfers. An implementation may remember the pages it has looked up.
        """

    @abstractmethod
    def forget(self, virtual: int, nbytes: int) -> None:
        """Forgets these pages, which were unmapped."""

    def apply(self, message: MmuMessage) -> None:
        """Maps or unmaps pages by *message*. Raises AddressError for a message that the page table refuses."""
        self.pages.obey(message)
        if isinstance(message, MmuUnmap):
            self.forget(message.virtual, message.nbytes)
