"""The session: what all programs of a simulation share. Clock, memory, log, trace, and the order of commands."""

from __future__ import annotations

from collections.abc import Sequence

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
from kb_messages import (
    Command,
    GemmCommand,
    KbError,
    LoadCommand,
    Matrix,
    StoreCommand,
    SubmittedCommand,
    matrices_of,
)


class Session:
    """Gives out command order and op ids, and tells the observers what programs do.

    `recorder` is None without an op log, and `tracer` is None without an observer of the trace.
    `kept` has the commands since `keep_commands`, which those of skipped programs may repeat; None where nobody asked.
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
        self.n_ops = 0
        self._commands = 0

    def restart(self, memory: MemoryStore, writer: LogWriter | None) -> None:
        """Count commands and ops from 0 again, with the bytes of *memory*, and with the log in *writer*, if any."""
        self.n_ops = self._commands = 0
        self.memory.restart(memory)
        if self.recorder is not None and writer is not None:
            self.recorder.restart(writer)
        if isinstance(self.materialize, Materializer):
            self.materialize.restart()

    def keep_commands(self, keeps: bool) -> None:
        """Whether commands that are issued from now on are `kept`. Those that were kept are forgotten."""
        self.kept = [] if keeps else None

    def tell_again(self, commands: Sequence[CommandInFlight], n: int = 1) -> None:
        """Tell the observers that skipped programs did *n* times over what *commands* did."""
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

    @property
    def commands_issued(self) -> int:
        """The commands that have a number so far. The next one gets this number."""
        return self._commands

    def next_command_seq(self) -> int:
        """A number for the command that is issued now. Pass 2 executes commands in the order of these numbers."""
        self._commands += 1
        return self._commands - 1

    def take_op_ids(self, count: int) -> int:
        """The first of *count* consecutive op ids."""
        first = self.n_ops
        self.n_ops += count
        return first

    def skip(self, commands: int, ops: int) -> None:
        """So many *commands* and *ops* got their numbers without being simulated."""
        self._commands += commands
        self.n_ops += ops

    def constant(self, element: bytes, count: int) -> int:
        """The offset in the op log's immediates of *count* times the bytes *element*; 0 without a log."""
        return 0 if self.recorder is None else self.recorder.constant(element, count)

    def open_command(self, command: Command, line: str, pe: ProcessingElement, completion: object) -> CommandInFlight:
        """*command*, of *line*, planned and in flight on *pe*, which the observers are told of.

        A program may wait for *completion*. Raises KernelError at *line* when a block refuses the plan.
        """
        seq = self._commands
        self._commands = seq + 1
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
    """The operands of *command* at virtual addresses. A piece that reads one row for several places is that row."""
    if type(command) is GemmCommand and not command.epilogue and command.acc is None:
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
