"""Queues of the engines of a PE: with `issue: decoupled`, a command waits in the queue of its engine, not in PE_CPU.

A command enters its queue in the order of the program and leaves it in that order, when its operands are there and the
submission queue has room. Commands of different engines pass each other, so loads run ahead of the products that wait
for them. The oldest command that is not done never waits for operands and is the first of its queue. So queues of any
depth go on as long as the blocks behind them do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import CommandScheduler
from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.port import Completion
from kb_engine.program.scoreboard import Scoreboard
from kb_engine.timing.clock import Clock
from kb_messages import CallCause, Command, LoadCommand, StoreCommand

GoOn = Callable[[CallCause, int], None]
"""Lets the kernel go on: with the cause, and the command that the cause is about."""


class EngineKind(IntEnum):
    """What serves a command: a channel of the DMA, or the engines that compute. Composites use all and wait with the
    latter."""

    DMA_READ = 0
    DMA_WRITE = 1
    COMPUTE = 2


def engine_of(command: Command) -> EngineKind:
    """The engine in whose queue *command* waits."""
    if isinstance(command, LoadCommand):
        return EngineKind.DMA_READ
    return EngineKind.DMA_WRITE if isinstance(command, StoreCommand) else EngineKind.COMPUTE


class _Entry(NamedTuple):
    """A command that PE_CPU has issued at `arrival_ps`. `submitted` is told when the command leaves its queue."""

    context: CommandInFlight
    completion: Completion
    arrival_ps: int
    submitted: Callable[[CommandInFlight], None]

    def visited(self, over: StateVisitor) -> _Entry:
        """As StateVisitor says: the entry as it is then. The completion is a part of its program."""
        over.part(self.context)
        over.call(self.submitted)
        return self._replace(arrival_ps=over.moment(self.arrival_ps))


class _Queue:
    """The commands of one engine that wait, at most *depth*, in front of *scheduler*.

    `_first_since_ps` is since when the first one is the first, and `_left_seq` is the command that left last.
    `_blocked` is a command that waits for room, with its kernel.
    """

    def __init__(self, clock: Clock, scheduler: CommandScheduler[Any], scoreboard: Scoreboard, depth: int) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._scoreboard = scoreboard
        self._depth = depth
        self._waiting: deque[_Entry] = deque()
        self._first_since_ps = 0
        self._left_seq = -1
        self._wants_room = False
        self._blocked: tuple[_Entry, GoOn] | None = None

    def visit_state(self, over: StateVisitor) -> None:
        """As StateVisitor says."""
        over.same(len(self._waiting), self._wants_room, self._blocked is None)
        self._left_seq = over.seq(self._left_seq)
        if self._waiting:
            self._first_since_ps = over.moment(self._first_since_ps)
        self._waiting = deque([each.visited(over) for each in self._waiting])
        if self._blocked is not None:
            entry, go_on = self._blocked
            over.call(go_on)
            self._blocked = entry.visited(over), go_on

    def put(self, entry: _Entry, go_on: GoOn) -> None:
        """Queue the command of *entry*, if there is room; *go_on* is called when the command is in the queue."""
        if len(self._waiting) >= self._depth:
            self._blocked = entry, go_on
            return
        self._enter(entry)
        go_on(CallCause.QUEUED, entry.context.submitted.command_seq)

    def submit_ready(self) -> None:
        """Submit the commands whose turn it is and whose operands are there."""
        while self._waiting and not self._wants_room:
            context, _, arrival_ps, _ = self._waiting[0]
            earlier = self._scoreboard.conflict(context.submitted)
            if earlier is not None:
                context.operand_seq = earlier.command_seq
                return
            now = context.t_issued_ps = self._clock.now_ps
            context.operand_ps = now - arrival_ps
            context.turn_ps = self._first_since_ps - arrival_ps
            if context.operand_seq < 0 and context.operand_ps:
                context.operand_seq = self._left_seq
            if not self._scheduler.has_room:
                self._wants_room = True
                self._scheduler.when_room(self._got_room)
                return
            self._submit_first()

    def _enter(self, entry: _Entry) -> None:
        self._scoreboard.issue(entry.context.submitted, entry.completion)
        self._waiting.append(entry)
        if len(self._waiting) == 1:
            self._first_since_ps = self._clock.now_ps
            self.submit_ready()

    def _got_room(self) -> None:
        self._wants_room = False
        self._submit_first()
        self.submit_ready()

    def _submit_first(self) -> None:
        context, _, _, submitted = self._waiting.popleft()
        context.t_submitted_ps = self._first_since_ps = self._clock.now_ps
        self._left_seq = context.submitted.command_seq
        submitted(context)
        self._scheduler.submit(context)
        if self._blocked is not None:
            (entry, go_on), self._blocked = self._blocked, None
            self._enter(entry)
            go_on(CallCause.SUBMISSION, self._left_seq)


class EngineQueues:
    """The queues of one PE, each of *depth* commands, in front of *scheduler*. *scoreboard* has all their commands."""

    def __init__(self, clock: Clock, scheduler: CommandScheduler[Any], scoreboard: Scoreboard, depth: int) -> None:
        self._clock = clock
        self._queues = [_Queue(clock, scheduler, scoreboard, depth) for _ in EngineKind]

    def visit_state(self, over: StateVisitor) -> None:
        """As StateVisitor says."""
        for queue in self._queues:
            over.part(queue)

    def put(
        self,
        context: CommandInFlight,
        completion: Completion,
        submitted: Callable[[CommandInFlight], None],
        go_on: GoOn,
    ) -> None:
        """Queue a command that PE_CPU has issued now. *go_on* is called when the command is in its queue.

        The scheduler gets the command later; *submitted* is called then.
        """
        entry = _Entry(context, completion, self._clock.now_ps, submitted)
        self._queues[engine_of(context.submitted.command)].put(entry, go_on)

    def advance(self) -> None:
        """Submit the commands whose turn it is and whose operands are there. Called when a command is done."""
        for queue in self._queues:
            queue.submit_ready()
