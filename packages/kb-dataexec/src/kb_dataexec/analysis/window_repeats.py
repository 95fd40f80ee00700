"""WindowRepeats: how often a window of a log comes again, so that nobody has to follow it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.log_survey import LogSurvey
from kb_dataexec.analysis.row_shift import RowShift
from kb_dataexec.analysis.window_state import WindowState


class Again(NamedTuple):
    """The last window comes *n* times more, each later by *shift*, in *n_chunks* chunks together. What of it is new in
    a window is the difference to the state *before* it."""

    before: WindowState
    n: int
    shift: RowShift
    n_chunks: int


class WindowRepeats:
    """Which windows of the log of *survey* come again, whose chunks end windows at *ends_ps*.

    A window follows from the rows of its chunks, from what the window before left, and from the times of commands and
    programs. So it repeats the one before it where all chunks and what was left are the same, later by one shift, and
    where nothing happens to a command or a program.
    """

    def __init__(self, survey: LogSurvey, ends_ps: Sequence[int]) -> None:
        self._shifts, self._ends_ps, self._came_ps = survey.shifts, ends_ps, survey.came_ps
        times = [survey.last_tiles.t_ready_ps]
        for table in (survey.tables[name] for name in ("commands", "kernels") if name in survey.tables):
            times += [table[name] for name in table.dtype.names or () if name.startswith("t_")]
        self._events_ps = np.unique(np.concatenate(times))
        self._before: WindowState | None = None
        self._left_out_ps = (0, -1)

    def is_left_out(self, first_ps: int, last_ps: int) -> bool:
        """Whether a chunk whose records came between these times belongs to windows that were not followed."""
        return self._left_out_ps[0] <= first_ps and last_ps <= self._left_out_ps[1]

    def may_begin(self, n_chunks: int) -> bool:
        """Whether the chunk behind the first *n_chunks* repeats the one before it."""
        return n_chunks < len(self._shifts) and self._shifts[n_chunks] is not None

    def again(self, state: WindowState) -> Again | None:
        """How often the window that ended in *state* comes again."""
        before, self._before = self._before, state
        if before is None:
            return None
        n_chunks = state.n_chunks - before.n_chunks
        chunk = self._shifts[before.n_chunks + 1] if before.n_chunks + 1 < len(self._shifts) else None
        if chunk is None:
            return None
        shift = chunk.times(n_chunks)
        n = self._n_alike(before.n_chunks, chunk) // n_chunks - 1
        at = int(np.searchsorted(self._events_ps, before.end_ps))
        if at < len(self._events_ps):
            n = min(n, (int(self._events_ps[at]) - 1 - state.end_ps) // shift.ps)
        if n < 1 or not before.leads(state, shift):
            return None
        return Again(before, n, shift, n * n_chunks)

    def leave_out(self, first: int, n_chunks: int) -> None:
        """*n_chunks* chunks from number *first* on are not followed."""
        self._left_out_ps = self._came_ps[first][0], self._came_ps[first + n_chunks - 1][1]

    def _n_alike(self, first: int, shift: RowShift) -> int:
        """How many chunks from number *first* on come and end their windows *shift* later than the one before each."""
        number = first
        while number < len(self._shifts) and self._ends_ps[number] - self._ends_ps[number - 1] == shift.ps:
            if number > first and self._shifts[number] != shift:
                break
            number += 1
        return number - first
