"""CommandStream: the commands of one launch that are in flight on one PE, whichever of its programs issued them."""

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
from kb_messages import CallCause, Command, CompletionRecord, LoadCommand, StoreCommand

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

    def folded(self, over: StateVisitor) -> _Entry:
        """As FoldPass says: the entry as it is then. The completion is a part of its program."""
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

    def fold(self, over: StateVisitor) -> None:
        """As FoldPass says."""
        over.same(len(self._waiting), self._wants_room, self._blocked is None)
        self._left_seq = over.seq(self._left_seq)
        if self._waiting:
            self._first_since_ps = over.moment(self._first_since_ps)
        self._waiting = deque([each.folded(over) for each in self._waiting])
        if self._blocked is not None:
            entry, go_on = self._blocked
            over.call(go_on)
            self._blocked = entry.folded(over), go_on

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

    def fold(self, over: StateVisitor) -> None:
        """As FoldPass says."""
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


class CommandStream:
    """Reads the PE's completion queue, and hands each record to the program that issued the command.

    `scoreboard` is that of the PE's CPU; None without one. `queues` are those of its engines, if commands wait there
    and not in the CPU. The programs of a PE share it, because the commands of one
    may still be under way when the next one begins.
    """

    def __init__(self, pe: ProcessingElement) -> None:
        self.scoreboard = Scoreboard() if pe.cpu.issues_ahead else None
        self.queues: EngineQueues | None = None
        depth = pe.cpu.engine_queue_depth
        if depth is not None and self.scoreboard is not None:
            self.queues = EngineQueues(pe.scheduler.clock, pe.scheduler, self.scoreboard, depth)
        self._completions = pe.scheduler.completions
        self._owners: dict[int, tuple[CommandInFlight, Callable[[CompletionRecord], None]]] = {}

    def fold(self, over: StateVisitor) -> None:
        """As FoldPass says, after the commands were visited."""
        if self.queues is not None:
            over.part(self.queues)
        over.same(len(self._owners), len(self._completions))
        for command, complete in self._owners.values():
            over.part(command)
            over.call(complete)
        commands = {seq: command for seq, (command, _) in self._owners.items()}
        if self.scoreboard is not None:
            self.scoreboard.fold(over, commands)
        self._owners = {each[0].submitted.command_seq: each for each in self._owners.values()}

    def listen(self) -> None:
        """Read the completion queue from now on, in place of the stream of the launch before."""
        self._completions.read_by(self._take)

    def expect(self, command: CommandInFlight, complete: Callable[[CompletionRecord], None]) -> None:
        """Call *complete* with the record of *command*, once."""
        self._owners[command.submitted.command_seq] = command, complete

    def _take(self) -> None:
        while (record := self._completions.take()) is not None:
            self._owners.pop(record.command_seq)[1](record)
