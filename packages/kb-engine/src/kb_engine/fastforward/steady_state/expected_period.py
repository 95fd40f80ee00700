"""ExpectedPeriod: what has to follow an equal state, if it follows as before. A run that checks its folds compares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.log.compressed import Table
from kb_engine.fastforward.steady_state.program_period import GridSnapshot
from kb_engine.fastforward.steady_state.program_snapshot import Numbers

Rows = Sequence[Table] | None
"""The rows of the log of a period, from its begin and its first op on; None without a log."""


class ExpectedPeriod:
    """After *begin*, as much time passes and as much happens as from the look *before* to the look *after*.

    *rows* are the rows of the log in that time.
    """

    def __init__(self, before: GridSnapshot, after: GridSnapshot, begin: GridSnapshot, rows: Rows) -> None:
        self._looks = before, after
        self._begin = begin
        self._ps = after.now_ps - before.now_ps
        self._by = numbers_between(before, after)
        self._grown = _grown(before, after)
        self._rows = rows

    @property
    def begin(self) -> GridSnapshot:
        """The look with which the period begins."""
        return self._begin

    @property
    def n_programs(self) -> int:
        """The programs that are taken in the period."""
        return self._by.programs

    def again(self, begin: GridSnapshot) -> ExpectedPeriod:
        """The same from the look *begin* on."""
        return ExpectedPeriod(*self._looks, begin, self._rows)

    def is_over(self, n_taken: int) -> bool:
        """Whether all programs of the period are among the *n_taken* ones of the launch."""
        return n_taken >= self._begin.so_far.programs + self.n_programs

    def jump_differs(self, look: GridSnapshot, after: GridSnapshot | None) -> str:
        """What is other than expected at *after* a jump from *look* over such periods; "" if nothing is."""
        if after is None or not after.is_like(look):
            return "states"
        n = (after.so_far.programs - look.so_far.programs) // self.n_programs
        if after.now_ps - look.now_ps != n * self._ps:
            return "times"
        is_grown = _grown(look, after) == [n * grown for grown in self._grown]
        is_numbered = numbers_between(look, after) == tuple(n * by for by in self._by)
        return "" if is_grown and is_numbered else "counts"

    def differs_from(self, look: GridSnapshot | None, rows: Rows) -> str:
        """What is other than expected at *look*, after *rows*; "" if nothing is. None stands for a state of no look."""
        begin = self._begin
        if look is None or numbers_between(begin, look) != self._by:
            return "programs and commands"
        if look.now_ps - begin.now_ps != self._ps:
            return "times"
        if not look.is_like(begin):
            return "states"
        if _grown(begin, look) != self._grown:
            return "counts"
        alike = rows is None or self._rows is None or all(map(np.array_equal, rows, self._rows))
        return "" if alike else "rows of the log"


def numbers_between(before: GridSnapshot, after: GridSnapshot) -> Numbers:
    """How many ops, commands and programs there were from *before* to *after*."""
    return Numbers(*[now - then for then, now in zip(before.so_far, after.so_far, strict=True)])


def _grown(before: GridSnapshot, after: GridSnapshot) -> list[int]:
    return [now - then for then, now in zip(before.totals, after.totals, strict=True)]
