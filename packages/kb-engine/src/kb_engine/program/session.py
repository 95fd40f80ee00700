"""The session: what all programs of a simulation share. Clock, memory, log, trace, and the order of commands."""

from __future__ import annotations

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.memory.allocator import Lease
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.listeners import Listeners
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.tracer import Tracer
from kb_engine.observe.watched_lease import WatchedLease
from kb_engine.program.materialize import Materialize
from kb_engine.program.pe import ProcessingElement
from kb_engine.timing.clock import Clock
from kb_messages import Matrix, PipelinePlan, SubmittedCommand, matrices_of


class Session:
    """Gives out command order and op ids, and tells the observers what programs do.

    `recorder` is None without an op log, and `tracer` is None without an observer of the trace.
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
        self.n_ops = 0
        self._commands = 0

    def lease(self, pe: ProcessingElement) -> Lease:
        """The share of *pe*'s TCM for one program."""
        listeners = self.listeners
        if listeners.on_allocate or listeners.on_free or listeners.on_program_end:
            return WatchedLease(pe.tcm, pe.pe_id, listeners)
        return Lease(pe.tcm)

    def next_command_seq(self) -> int:
        """A number for the command that is issued now. Pass 2 executes commands in the order of these numbers."""
        self._commands += 1
        return self._commands - 1

    def take_op_ids(self, count: int) -> int:
        """The first of *count* consecutive op ids."""
        first = self.n_ops
        self.n_ops += count
        return first

    def constant(self, element: bytes, count: int) -> int:
        """The offset in the op log's immediates of *count* times the bytes *element*; 0 without a log."""
        return 0 if self.recorder is None else self.recorder.constant(element, count)

    def open_command(self, submitted: SubmittedCommand, plan: PipelinePlan, pe: ProcessingElement) -> CommandInFlight:
        """A command in flight on *pe*, which the observers are told of."""
        mapped: tuple[Matrix, ...] = ()
        if pe.mmu is not None:
            mapped = tuple(matrix for matrix in matrices_of(submitted.command) if matrix.virtual is not None)
        context = CommandInFlight(submitted, plan, self.take_op_ids(plan.n_stages), pe.scheduler.complete, mapped)
        if self.listeners.on_issue is not None:
            self.listeners.on_issue(context)
        return context
