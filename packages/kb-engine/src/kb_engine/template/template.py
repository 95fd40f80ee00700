"""Template: the steps of a program, for all programs that do as it did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_engine.memory.allocator import Allocator
from kb_engine.program.pe_port import PePort
from kb_engine.template.steps import Allocation, Constant, RegisterRange, Release, Repetition, Step
from kb_engine.template.tracing import Tape


class Template:
    """The programs *numbers*, the traced one among them, do the steps of *tape*.

    `needs_nbytes` free bytes of TCM in one piece are enough for them, however the TCM is cut up meanwhile.
    """

    def __init__(self, tape: Tape, allocator: Allocator) -> None:
        self.numbers = np.flatnonzero(tape.peers.agree)
        self.needs_nbytes = _needed_nbytes(tape.steps, allocator, tape.keeps_bytes)
        columns = [column[self.numbers] for column in tape.holes.columns]
        self._table = np.stack(columns, axis=1) if columns else np.empty((len(self.numbers), 0), np.int64)
        self._repeats = [step.repeat for step in tape.steps]

    def repeat(self, port: PePort, row: int) -> None:
        """Do the steps as program `numbers[row]`."""
        run = Repetition(port, self._table[row].tolist())
        for repeat in self._repeats:
            repeat(run)


def _needed_nbytes(steps: Sequence[Step], allocator: Allocator, keeps_bytes: bool) -> int:
    """The bytes among which there is always room: n ranges leave n + 1 gaps, of which the largest has its share."""
    held: dict[int, int] = {}
    given = needed = 0
    for step in steps:
        if isinstance(step, Allocation):
            size = allocator.rounded(step.nbytes)
            needed = max(needed, sum(held.values()) + size * (len(held) + 1))
            held[given] = size
        elif isinstance(step, Release) and not keeps_bytes:
            del held[step.slot]
        given += isinstance(step, (Allocation, Constant, RegisterRange))
    return needed
