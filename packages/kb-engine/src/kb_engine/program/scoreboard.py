"""The scoreboard of a PE_CPU: which bytes the commands read and write that are issued and not done.

A command that touches them the other way (RAW, WAR, WAW) waits, wherever they lie: TCM, HBM or SRAM. So commands of one
program take effect in their order, and freed TCM can be taken again at once: its new writer waits.
"""

from __future__ import annotations

from typing import NamedTuple

from kb_engine.memory.pending import Rectangles, overlaps
from kb_engine.program.port import Completion
from kb_messages import OFFSET_BITS, Matrix, SubmittedCommand, matrices_of, target_of


class _Use(NamedTuple):
    completion: Completion
    writes: bool


class Scoreboard:
    """The commands of one program that are issued and not done."""

    def __init__(self) -> None:
        self._by_owner: dict[int, Rectangles[_Use]] = {}

    def conflict(self, submitted: SubmittedCommand) -> Completion | None:
        """The oldest command that *submitted* has to wait for, None when it may be issued."""
        found = None
        target = target_of(submitted.command)
        for matrix in matrices_of(submitted.command):
            uses = self._by_owner.get(matrix.address >> OFFSET_BITS)
            for at in uses.near(matrix) if uses is not None else ():
                assert uses is not None
                other, command_seq, use = uses.entries[at]
                clashes = (use.writes or matrix is target) and overlaps(matrix, other)
                if clashes and (found is None or command_seq < found[0]):
                    found = command_seq, use.completion
        return found and found[1]

    def issue(self, submitted: SubmittedCommand, completion: Completion) -> None:
        """*submitted* is on its way."""
        target = target_of(submitted.command)
        for matrix in matrices_of(submitted.command):
            uses = self._by_owner.setdefault(matrix.address >> OFFSET_BITS, Rectangles())
            uses.add(matrix, submitted.command_seq, _Use(completion, matrix is target))

    def retire(self, submitted: SubmittedCommand) -> None:
        """*submitted* is done: forget what it touched."""
        for matrix in matrices_of(submitted.command):
            self._forget(matrix, submitted.command_seq)

    def _forget(self, matrix: Matrix, command_seq: int) -> None:
        uses = self._by_owner[matrix.address >> OFFSET_BITS]
        for at in uses.near(matrix):
            other, seq, _ = uses.entries[at]
            if seq == command_seq and other is matrix:
                uses.remove(at)
                return
