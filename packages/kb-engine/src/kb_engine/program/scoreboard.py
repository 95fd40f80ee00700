"""The scoreboard of a PE_CPU: which bytes the issued commands read and write until they are done.

A new command that reads bytes an earlier one writes, or writes bytes an earlier one reads or writes (RAW, WAR, WAW),
waits, wherever the bytes lie: TCM, HBM or SRAM. So the commands of one program take effect in their order. Freed TCM
can be allocated again at once, because its new writer waits for its last user.

GEMMs that add to one sum in registers do not wait for each other: the array works on tiles in their order.
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
"""Bytes of a command, whether it writes them, and whether they are its sum."""


class BytesInUse(NamedTuple):
    """A command that uses some bytes until it is done, and whether it writes them.

    `sums` says that the bytes are a sum in registers, which a GEMM adds to.
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
        """The oldest command before *submitted* that it has to wait for; None when it may be submitted."""
        found: BytesInUse | None = None
        seq = submitted.command_seq
        command = submitted.command
        uses = self._uses_of(submitted) if type(command) is not GemmCommand else _uses(command, _sums_in_place(command))
        for rectangle, writes, sums in uses:
            for other, use in self._index.near(rectangle):
                if use.command_seq >= seq or (sums and use.sums):
                    continue
                clashes = (use.writes or writes) and overlaps(rectangle, other)
                if clashes and (found is None or use.command_seq < found.command_seq):
                    found = use
        return found

    def issue(self, submitted: SubmittedCommand, completion: Completion) -> None:
        """*submitted* reads and writes its operands from now on."""
        seq, command = submitted.command_seq, submitted.command
        uses = self._uses_of(submitted) if type(command) is not GemmCommand else _uses(command, command.out_held)
        self._by_command[seq] = [
            self._index.add(rectangle, BytesInUse(seq, completion, writes, sums)) for rectangle, writes, sums in uses
        ]

    def retire(self, submitted: SubmittedCommand) -> None:
        """*submitted* is done and touches its operands no more."""
        seq = submitted.command_seq
        for entry in self._by_command.pop(seq):
            self._index.remove(entry)
        self._known_uses.pop(seq, None)

    def visit_state(self, over: StateVisitor, commands: Mapping[int, CommandInFlight]) -> None:
        """As StateVisitor says. *commands* are those in flight, by the numbers that they had when they were issued.

        Which of their bytes meet those of commands to come is for others to compare.
        """
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
        """The uses of *submitted*, which leaves no sum. They are asked for again and again until it is done."""
        seq = submitted.command_seq
        known = self._known_uses.get(seq)
        if known is None:
            known = self._known_uses[seq] = _uses(submitted.command, False)
        return known


def _sums_in_place(command: Command) -> bool:
    """Whether nothing but a GEMM stage of *command* touches the sum that *command* leaves in registers."""
    return isinstance(command, GemmCommand) and command.out_held and (command.acc is None or command.acc_held)


def _uses(command: Command, sums: bool) -> list[_Use]:
    """What *command* uses. It has a sum if *sums* says so."""
    reads, writes = accesses_of(command)
    base = writes[0].base if sums else -1
    uses = [(each, False, each.base == base) for each in reads]
    return uses + [(each, True, each.base == base) for each in writes]
