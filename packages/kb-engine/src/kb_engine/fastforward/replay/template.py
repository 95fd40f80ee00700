"""Template: the steps of a traced program, for all programs that repeat it.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kb_engine.fastforward.replay.steps import (
    Allocation,
    Constant,
    LoadCheck,
    PendingMark,
    RegisterRange,
    Release,
    Repetition,
    Step,
    StoreLoaded,
    Submission,
    Wait,
)
from kb_engine.fastforward.replay.tracing import Tape
from kb_engine.memory.allocator import Allocator
from kb_engine.program.values.symbols import Ints

_GIVING: Final = (Allocation, Constant, RegisterRange)
"""The steps that give the program an address."""


class Template:
    """The programs *numbers*, the traced one among them, do the steps of *tape*.

    `n_given` is the number of addresses that a program is given. `issues` has the commands, and
    `ends_with_an_issue` says that no memory step follows the last one.
    `needs_nbytes` free bytes of TCM in one piece are enough for them, however the TCM is cut up meanwhile.
    """

    def __init__(self, tape: Tape, allocator: Allocator) -> None:
        self.numbers = np.flatnonzero(tape.peers.agree)
        self.needs_nbytes = _needed_nbytes(tape, allocator)
        columns = [column[self.numbers] for column in tape.placeholders.columns]
        self._table = np.stack(columns, axis=1) if columns else np.empty((len(self.numbers), 0), np.int64)
        self._repeats = [step.repeat for step in tape.steps]
        self.issues, self.ends_with_an_issue = _issues(tape.steps)
        self.n_given = sum(isinstance(step, _GIVING) for step in tape.steps)

    @property
    def table(self) -> Ints:
        """The numbers of each program, which are addresses."""
        return self._table

    def row(self, row: int) -> list[int]:
        """Returns the numbers of program `numbers[row]`."""
        numbers: list[int] = self._table[row].tolist()
        return numbers

    def repeat(self, run: Repetition) -> None:
        """Does the steps."""
        run.do(self._repeats)


MemoryStep: TypeAlias = LoadCheck | PendingMark | StoreLoaded
"""A step that checks, marks or writes bytes of memory."""


class Issue(NamedTuple):
    """A command that a program issues, and its memory steps since the command before."""

    memory_steps: tuple[MemoryStep, ...]
    submission: Submission


def _issues(steps: Sequence[Step]) -> tuple[Sequence[Issue], bool]:
    """Returns the commands among *steps*, and whether no memory step follows the last one."""
    found: list[Issue] = []
    memory_steps: list[MemoryStep] = []
    for step in steps:
        if isinstance(step, MemoryStep):
            memory_steps.append(step)
        elif isinstance(step, Submission):
            found.append(Issue(tuple(memory_steps), step))
            memory_steps.clear()
    return found, not memory_steps


def _needed_nbytes(tape: Tape, allocator: Allocator) -> int:
    """Returns the bytes that are always enough: n ranges leave n + 1 gaps, and the largest gap has at least its share.

    TCM that a command keeps is free when the program has given it up and has waited for the command.
    """
    held, uses, kept_by = dict[int, int](), dict[int, int](), dict[int, tuple[int, ...]]()
    given = needed = n_issued = 0
    for step in tape.steps:
        over: tuple[int, ...] = ()
        if isinstance(step, Allocation):
            size = allocator.rounded(step.nbytes)
            needed = max(needed, sum(held.values()) + size * (len(held) + 1))
            held[given], uses[given] = size, 1
        elif isinstance(step, Submission):
            kept_by[n_issued] = step.keeps
            n_issued += 1
            for slot in step.keeps:
                uses[slot] += 1
        elif isinstance(step, Wait):
            over = kept_by.pop(step.number, ())
        elif isinstance(step, Release):
            over = (step.slot,)
        for slot in over:
            uses[slot] -= 1
            if not uses[slot]:
                del held[slot]
        given += isinstance(step, _GIVING)
    return needed
