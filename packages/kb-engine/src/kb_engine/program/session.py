"""Session: the state that all programs of a simulation share: clock, memory, log, trace, and the order of commands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from kb_dataexec import LogWriter, MemoryStore
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.memory.allocator import Lease
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.observer import Listeners
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.tracer import Tracer
from kb_engine.observe.watched_lease import WatchedLease
from kb_engine.program.author.kernel_lines import at_line
from kb_engine.program.materialize import Materialize, Materializer
from kb_engine.program.pe import ProcessingElement
from kb_engine.timing.clock import Clock
from kb_messages import Command, GemmCommand, KbError, LoadCommand, Matrix, StoreCommand, SubmittedCommand, matrices_of


class UnderWay:
    """Counts the launches and the host's transfers of streams that are under way, `n`. `n_begun` have begun so far.

    Launches without a stream are not counted, because nothing else is under way beside them. `n_calls` counts the calls
    of streams that have not ended, also those that have not begun. `has_unseen` says that the host has called since it
    waited for all calls.
    """

    def __init__(self) -> None:
        self.n = self.n_begun = self.n_calls = 0
        self.has_unseen = False

    @property
    def is_one(self) -> bool:
        """Whether nothing is under way beside one launch: no other launch, and no transfer of a stream."""
        return self.n <= 1

    def begin(self) -> None:
        """Notes that a launch or a transfer begins."""
        self.n += 1
        self.n_begun += 1

    def end(self) -> None:
        """Notes that a launch or a transfer has ended."""
        self.n -= 1

    def call(self) -> None:
        """Notes that the host has called, in a stream."""
        self.n_calls += 1
        self.has_unseen = True

    def looked(self) -> None:
        """Notes that the host has waited for all calls."""
        self.has_unseen = False

    def call_ended(self) -> None:
        """Notes that a call of a stream has ended."""
        self.n_calls -= 1


class Session:
    """Numbers commands and ops, and notifies the observers of commands.

    `commands_issued` and `n_ops` are the numbers of commands and of ops so far, which are the next of their numbers.
    `recorder` is None without an op log, and `tracer` is None without an observer of the trace. `kept` holds the
    commands since `keep_commands(True)`, which skipped programs may repeat; None otherwise. `signal_number` numbers the
    signals between programs. `under_way` counts what streams have under way.
    """

    def __init__(
        self,
        clock: Clock,
        memory: DeviceMemory,
        listeners: Listeners,
        recorder: Recorder | None,
        tracer: Tracer | None,
        materialize: Materialize,
    ) -> None:
        self.clock = clock
        self.memory = memory
        self.listeners = listeners
        self.recorder = recorder
        self.tracer = tracer
        self.materialize = materialize
        self.kept: list[CommandInFlight] | None = None
        self.n_ops = self.commands_issued = 0
        self.signal_number = count()
        self.under_way = UnderWay()

    def restart(self, memory: MemoryStore, writer: LogWriter | None) -> None:
        """Counts commands and ops from 0 again, with the bytes of *memory*, and with the log in *writer*, if any."""
        self.n_ops = self.commands_issued = 0
        self.signal_number = count()
        self.memory.restart(memory)
        if self.recorder is not None and writer is not None:
            self.recorder.restart(writer)
        if isinstance(self.materialize, Materializer):
            self.materialize.restart()

    def slot_freed(self, slot: Matrix, free_seq: int) -> None:
        """Notes that *slot*, of a message, has no bytes from command *free_seq* on."""
        if isinstance(self.materialize, Materializer):
            self.materialize.slot_freed(slot, free_seq)

    def keep_commands(self, keeps: bool) -> None:
        """Keeps the commands that are issued from now on in `kept`, or, without *keeps*, none. Forgets earlier ones."""
        self.kept = [] if keeps else None

    def notify_again(self, commands: Sequence[CommandInFlight], n: int = 1) -> None:
        """Notifies the observers that skipped programs repeated *commands* *n* times."""
        on_issue_again = self.listeners.on_issue_again
        if on_issue_again is not None:
            for command in commands:
                on_issue_again(command, n)

    def lease(self, pe: ProcessingElement) -> Lease:
        """The share of *pe*'s TCM for one program."""
        listeners = self.listeners
        if listeners.on_allocate or listeners.on_free or listeners.on_program_end:
            return WatchedLease(pe.tcm, pe.pe_id, listeners)
        return Lease(pe.tcm)

    def take_numbers(self) -> tuple[int, int]:
        """Takes the numbers of a command of one op, and of the op. Pass 2 executes commands in the order of numbers."""
        numbers = self.commands_issued, self.n_ops
        self.skip(1, 1)
        return numbers

    def skip(self, commands: int, ops: int) -> None:
        """Skips the numbers of *commands* commands and *ops* ops that are not simulated."""
        self.commands_issued += commands
        self.n_ops += ops

    def constant(self, element: bytes, count: int) -> int:
        """The offset in the op log's immediates of *count* times the bytes *element*; 0 without a log."""
        return 0 if self.recorder is None else self.recorder.constant(element, count)

    def open_command(self, command: Command, line: str, pe: ProcessingElement, completion: object) -> CommandInFlight:
        """Plans *command*, of *line*, puts it in flight on *pe*, and notifies the observers.

        A program may wait for *completion*. Raises KernelError at *line* when a block refuses the plan.
        """
        seq = self.commands_issued
        self.commands_issued = seq + 1
        submitted = SubmittedCommand(command_seq=seq, pe=pe.pe_id, line=line, command=command)
        scheduler = pe.scheduler
        try:
            plan, addresses = scheduler.shared_plan(submitted)
        except KbError as error:
            raise at_line(error, line) from None
        mapped: tuple[Matrix, ...] = ()
        if pe.mmu is not None:
            mapped = _mapped(command)
        first_op = self.n_ops
        self.n_ops = first_op + plan.n_stages
        context = CommandInFlight(submitted, plan, first_op, scheduler.complete, mapped, addresses, completion)
        if self.listeners.on_issue is not None:
            self.listeners.on_issue(context)
        if self.kept is not None:
            self.kept.append(context)
        return context


def _mapped(command: Command) -> tuple[Matrix, ...]:
    """The operands of *command* that have virtual addresses. A piece that repeats one row counts as that row."""
    if type(command) is GemmCommand and not command.epilogue and command.acc is None:  # most commands, so made fast
        a, b, out = command.a, command.b, command.out
        if a.virtual is b.virtual is out.virtual is None:
            return ()
        return tuple([each for each in (a, b, out) if each.virtual is not None])
    pieces = command.pieces if isinstance(command, LoadCommand | StoreCommand) else ()
    if not pieces:
        return tuple(matrix for matrix in matrices_of(command) if matrix.virtual is not None)
    dtype = command.dst.dtype  # type: ignore[union-attr]  # it has pieces
    return tuple(
        Matrix(
            address=each.address,
            rows=each.rows if each.stride else 1,
            cols=each.cols,
            stride=each.stride,
            dtype=dtype,
            virtual=each.virtual,
        )
        for each in pieces
        if each.virtual is not None
    )
