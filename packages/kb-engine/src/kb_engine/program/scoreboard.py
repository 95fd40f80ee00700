"""The scoreboard of a PE_CPU: the bytes that issued commands read and write until they are done.

A new command waits for an earlier one when it reads bytes that the earlier one writes, or writes bytes that the earlier
one reads or writes (RAW, WAR, WAW), in TCM, HBM or SRAM. So the commands of one program take effect in their order.
Freed TCM can be allocated again at once, because its new writer waits for its last user.

GEMMs that add to one accumulator in registers do not wait for each other: the array works on tiles in their order.

Design: docs/design/processing-element.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.state_visitor import StateVisitor
from kb_engine.memory.rectangle_index import Entry, RectangleIndex
from kb_engine.program.port import Completion
from kb_messages import Command, GemmCommand, Rectangle, SubmittedCommand, accesses_of, overlaps

_Use = tuple[Rectangle, bool, bool]
"""Bytes of a command, whether it writes them, and whether they are its accumulator."""


class BytesInUse(NamedTuple):
    """A use of bytes by a command until it is done. `writes` says whether the command writes them.

    `sums` says that the bytes are an accumulator in registers, to which a GEMM adds.
    """

    command_seq: int
    completion: Completion
    writes: bool
    sums: bool = False


class Scoreboard:
    """The commands of one program that are issued and not done."""

    def __init__(self) -> None:
        self._index = RectangleIndex[BytesInUse]()
        self._by_command: dict[int, list[Entry[BytesInUse]]] = {}
        self._known_uses: dict[int, list[_Use]] = {}

    def conflict(self, submitted: SubmittedCommand) -> BytesInUse | None:
        """The oldest earlier command for which *submitted* has to wait; None when *submitted* may start."""
        found: BytesInUse | None = None
        seq = submitted.command_seq
        command = submitted.command
        uses = self._uses_of(submitted) if type(command) is not GemmCommand else _uses(command, _sums_in_place(command))
        for rectangle, writes, sums in uses:
            for other, use in self._index.near(rectangle):
                # A GEMM does not wait for an earlier GEMM that adds to the same accumulator.
                if use.command_seq >= seq or (sums and use.sums):
                    continue
                clashes = (use.writes or writes) and overlaps(rectangle, other)
                if clashes and (found is None or use.command_seq < found.command_seq):
                    found = use
        return found

    def uses(self, rectangle: Rectangle) -> bool:
        """Whether an issued command that is not done uses bytes of *rectangle*."""
        return any(overlaps(rectangle, other) for other, _ in self._index.near(rectangle))

    def issue(self, submitted: SubmittedCommand, completion: Completion) -> None:
        """Notes that *submitted* uses its operands from now on."""
        seq, command = submitted.command_seq, submitted.command
        uses = self._uses_of(submitted) if type(command) is not GemmCommand else _uses(command, command.out_held)
        self._by_command[seq] = [
            self._index.add(rectangle, BytesInUse(seq, completion, writes, sums)) for rectangle, writes, sums in uses
        ]

    def retire(self, submitted: SubmittedCommand) -> None:
        """Notes that *submitted* is done and uses its operands no more."""
        seq = submitted.command_seq
        for entry in self._by_command.pop(seq):
            self._index.remove(entry)
        self._known_uses.pop(seq, None)

    def visit_state(self, over: StateVisitor, commands: Mapping[int, CommandInFlight]) -> None:
        """Hands the state to *over*. *commands* are the commands in flight, by their numbers at issue. The bytes of
        later commands are compared elsewhere."""
        over.same(len(self._by_command))
        for seq in self._by_command:
            over.part(commands[seq])
        if not over.jumps:
            return
        issued, self._by_command, self._known_uses = self._by_command, {}, {}
        for seq, entries in issued.items():
            for entry in entries:
                self._index.remove(entry)
            if entries:
                self.issue(commands[seq].submitted, entries[0].payload.completion)
            else:
                self._by_command[commands[seq].submitted.command_seq] = []

    def _uses_of(self, submitted: SubmittedCommand) -> list[_Use]:
        """The uses of *submitted*, which leaves no accumulator. Cached until the command is done."""
        seq = submitted.command_seq
        known = self._known_uses.get(seq)
        if known is None:
            known = self._known_uses[seq] = _uses(submitted.command, False)
        return known


def _sums_in_place(command: Command) -> bool:
    """Whether GEMM stages alone use the accumulator that *command* leaves in registers."""
    return isinstance(command, GemmCommand) and command.out_held and (command.acc is None or command.acc_held)


def _uses(command: Command, sums: bool) -> list[_Use]:
    """The uses of *command*. With *sums*, its first result is an accumulator in registers."""
    reads, writes = accesses_of(command)
    base = writes[0].base if sums else -1
    uses = [(each, False, each.base == base) for each in reads]
    return uses + [(each, True, each.base == base) for each in writes]
