"""CommandStream: the commands of one launch that are in flight on one PE, from all of its programs.

With `issue: decoupled`, a command waits in the queue of its engine and not in PE_CPU. A command enters its queue in the
order of the program and leaves the queue in that order, when its operands are there and the submission queue has room.
Commands of different engines pass each other, so loads run ahead of the products that wait for them. The oldest command
that is not done never waits for operands and is the first of its queue. So queues of any depth make progress as long as
the blocks behind them do.

Design: docs/design/processing-element.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import CommandScheduler
from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion
from kb_engine.program.scoreboard import Scoreboard
from kb_engine.timing.clock import Clock
from kb_messages import CallCause, Command, CompletionRecord, LoadCommand, Rectangle, StoreCommand

GoOn = Callable[[CallCause, int], None]
"""Resumes the kernel. The arguments are the cause, and the `command_seq` of the command that is the cause."""


class EngineKind(IntEnum):
    """The engine that serves a command: a channel of the DMA, or the engines that compute. Composites use all engines
    and wait in the queue of COMPUTE."""

    DMA_READ = 0
    DMA_WRITE = 1
    COMPUTE = 2


def engine_of(command: Command) -> EngineKind:
    """The engine in whose queue *command* waits."""
    if isinstance(command, LoadCommand):
        return EngineKind.DMA_READ
    return EngineKind.DMA_WRITE if isinstance(command, StoreCommand) else EngineKind.COMPUTE


class _Entry(NamedTuple):
    """A command that PE_CPU issued at `arrival_ps`. `submitted` is called when the command leaves its queue."""

    context: CommandInFlight
    completion: Completion
    arrival_ps: int
    submitted: Callable[[CommandInFlight], None]

    def visited(self, over: StateVisitor) -> _Entry:
        """Hands the state to *over*, apart from the completion, and returns the entry with the moments of *over*."""
        over.part(self.context)
        over.call(self.submitted)
        return self._replace(arrival_ps=over.moment(self.arrival_ps))


class EngineQueue:
    """The queue of one engine: at most *depth* commands, which wait in front of *scheduler*.

    `_first_since_ps` is the moment since which the first command is the first, and `_left_seq` is the command that left
    last. `_blocked` is a command that waits for room in the queue, and the function that resumes its kernel.
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
        """Hands the state to *over*."""
        over.same(len(self._waiting), self._wants_room, self._blocked is None)
        self._left_seq = over.seq(self._left_seq)
        if self._waiting:
            self._first_since_ps = over.moment(self._first_since_ps)
        self._waiting = deque([each.visited(over) for each in self._waiting])
        if self._blocked is not None:
            entry, go_on = self._blocked
            over.call(go_on)
            self._blocked = entry.visited(over), go_on

    def put(
        self,
        context: CommandInFlight,
        completion: Completion,
        submitted: Callable[[CommandInFlight], None],
        go_on: GoOn,
    ) -> None:
        """Queues a command that PE_CPU has issued now. Calls *go_on* when the command is in the queue.

        The scheduler gets the command later; *submitted* is called then.
        """
        entry = _Entry(context, completion, self._clock.now_ps, submitted)
        if len(self._waiting) >= self._depth:
            self._blocked = entry, go_on
            return
        self._enter(entry)
        go_on(CallCause.QUEUED, entry.context.submitted.command_seq)

    def submit_ready(self) -> None:
        """Submits the commands at the front of the queue, up to the first whose operands are not there."""
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


class CommandStream:
    """Reads the completion queue of the PE, and hands each record to the program that issued the command.

    `scoreboard` is the scoreboard of the PE's CPU, or None. `queues` are the queues of the PE's engines, by
    `EngineKind`; there are none where commands wait in the CPU. The programs of a PE share one stream, because commands
    of a program may be in flight when the next program begins.
    """

    def __init__(self, pe: ProcessingElement) -> None:
        self.scoreboard = Scoreboard() if pe.cpu.issues_ahead else None
        self.queues: list[EngineQueue] = []
        depth, scheduler = pe.cpu.engine_queue_depth, pe.scheduler
        if depth is not None and self.scoreboard is not None:
            self.queues = [EngineQueue(scheduler.clock, scheduler, self.scoreboard, depth) for _ in EngineKind]
        self._completions = pe.scheduler.completions
        self._unused: list[tuple[Rectangle, Callable[[], None]]] = []
        self._owners: dict[int, tuple[CommandInFlight, Callable[[CompletionRecord], None]]] = {}

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*. Called after the commands were visited."""
        for queue in self.queues:
            over.part(queue)
        over.same(len(self._owners), len(self._completions))
        for command, complete in self._owners.values():
            over.part(command)
            over.call(complete)
        commands = {seq: command for seq, (command, _) in self._owners.items()}
        if self.scoreboard is not None:
            self.scoreboard.visit_state(over, commands)
        self._owners = {each[0].submitted.command_seq: each for each in self._owners.values()}

    def listen(self) -> None:
        """Reads the completion queue from now on, in place of the stream of the launch before."""
        self._completions.read_by(self._take)

    def expect(self, command: CommandInFlight, complete: Callable[[CompletionRecord], None]) -> None:
        """Has *complete* called once, with the completion record of *command*."""
        self._owners[command.submitted.command_seq] = command, complete

    def when_unused(self, rectangle: Rectangle, call: Callable[[], None]) -> None:
        """Calls `call()` when no command that the scoreboard knows uses *rectangle*, at once if none does.

        Without a scoreboard nobody gives bytes back that a command uses.
        """
        if self.scoreboard is not None and self.scoreboard.uses(rectangle):
            self._unused.append((rectangle, call))
        else:
            call()

    def look_for_unused(self) -> None:
        """Makes the calls of `when_unused` whose bytes no command uses any more. A command has ended."""
        if not self._unused or self.scoreboard is None:
            return
        waiting, self._unused = self._unused, []
        for rectangle, call in waiting:
            self.when_unused(rectangle, call)

    def _take(self) -> None:
        while (record := self._completions.take()) is not None:
            self._owners.pop(record.command_seq)[1](record)
