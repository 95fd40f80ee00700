"""CommandStream: the commands of one launch that are in flight on one PE, whichever of its programs issued them."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.engine_queues import EngineQueues
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.scoreboard import Scoreboard
from kb_messages import CompletionRecord


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

    def visit_state(self, over: StateVisitor) -> None:
        """As StateVisitor says, after the commands were visited."""
        if self.queues is not None:
            over.part(self.queues)
        over.same(len(self._owners), len(self._completions))
        for command, complete in self._owners.values():
            over.part(command)
            over.call(complete)
        commands = {seq: command for seq, (command, _) in self._owners.items()}
        if self.scoreboard is not None:
            self.scoreboard.visit_state(over, commands)
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
