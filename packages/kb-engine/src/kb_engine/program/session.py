"""What all programs of a simulation share: the clock, the order of commands, the memory, the log and the trace."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.recorder import OpLogger
from kb_engine.observe.tracer import Tracer
from kb_engine.program.leaks import LeakWatch
from kb_engine.program.materialize import Materialize, without_log
from kb_engine.timing.clock import Clock
from kb_messages import PipelinePlan, SubmittedCommand


class Session:
    """Gives out command order and op ids, and keeps the totals that follow from the plans."""

    def __init__(self, clock: Clock, memory: DeviceMemory, oplog: OpLogger | None) -> None:
        self.clock = clock
        self.memory = memory
        self.oplog = oplog
        self.tracer: Tracer | None = None
        self.on_plan: Callable[[PipelinePlan], None] | None = None
        self.leaks: LeakWatch | None = None
        self.materialize: Materialize = without_log
        self.n_ops = 0
        self._commands = 0

    def next_command_seq(self) -> int:
        """The place of the command that is issued now in the order that pass 2 follows."""
        self._commands += 1
        return self._commands - 1

    def take_op_ids(self, count: int) -> int:
        """The first of *count* consecutive op ids."""
        first = self.n_ops
        self.n_ops += count
        return first

    def constant(self, element: bytes, count: int) -> int:
        """Where the op log has *count* times the bytes *element* among its immediates; 0 without a log."""
        return 0 if self.oplog is None else self.oplog.constant(element, count)

    def open_command(
        self, submitted: SubmittedCommand, plan: PipelinePlan, done: Callable[[CommandInFlight], None]
    ) -> CommandInFlight:
        """Make *plan* a command in flight."""
        context = CommandInFlight(submitted, plan, self.take_op_ids(plan.n_stages), done)
        if self.on_plan is not None:
            self.on_plan(plan)
        if self.oplog is not None:
            self.oplog.add_command(context)
        return context
