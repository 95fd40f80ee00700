"""WindowRepeats: finds windows of a log that repeat, so that they are not followed again.

A window repeats if its rows and the state that the window before left (WindowState) repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.sync_calls import SyncCalls
from kb_dataexec.analysis.dma_ops import FarEnds
from kb_dataexec.analysis.stream_calls import of_programs
from kb_dataexec.analysis.windows.log_survey import LogSurvey
from kb_dataexec.analysis.windows.path_forest import PathNode, PathRound
from kb_dataexec.analysis.windows.row_shift import RowShift
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.table_dtypes import TABLE_DTYPES

EventName = tuple[int, int]
"""The kind of an event, and its op, command or program."""


class KeptRows(NamedTuple):
    """Rows that windows keep: of ops, of `transfers` (stored ones), of `dispatches`, and the far ends of DMA ops, which
    ascend by op id."""

    ops: Array
    transfers: Array
    dispatches: Array
    far_op: Array
    far: FarEnds

    def later(self, shift: RowShift) -> KeptRows:
        """Returns the same rows, later by *shift*."""
        ops, transfers, dispatches = map(shift.later, self[:3])
        return KeptRows(ops, transfers, dispatches, self.far_op + shift.ops, self.far)

    def lead(self, after: KeptRows, shift: RowShift) -> bool:
        """Whether *after* equals these rows moved by *shift*."""
        if not all(shift.leads(mine, theirs) for mine, theirs in zip(self[:3], after[:3], strict=True)):
            return False
        return np.array_equal(self.far_op + shift.ops, after.far_op) and all(map(np.array_equal, self.far, after.far))


class EventWays(NamedTuple):
    """The nodes of events: of paths over the chip, and of paths within a PE."""

    anywhere: dict[EventName, PathNode]
    on_pe: dict[EventName, PathNode]


class WindowState(NamedTuple):
    """The state after *n_chunks* chunks, with all events before *end_ps* followed.

    It has kept rows, rows of `transfers` that came before their ops, nodes, and the work of commands by launch and
    block.
    """

    n_chunks: int
    end_ps: int
    kept: KeptRows
    early: Array
    ways: EventWays
    busy: dict[int, Counter[str]]

    def leads(self, after: WindowState, shift: RowShift) -> bool:
        """Whether the rows of *after* equal the rows of this state moved by *shift*."""
        return (
            self.end_ps + shift.ps == after.end_ps
            and self.kept.lead(after.kept, shift)
            and shift.leads(self.early, after.early)
        )


class WaysRound(NamedTuple):
    """The construction of the nodes of events from the nodes one window earlier.

    The first `n_ops` are events of ops.
    """

    names: list[EventName]
    n_ops: int
    step: PathRound

    @classmethod
    def between(
        cls, before: dict[EventName, PathNode], after: dict[EventName, PathNode], shift: RowShift, n_kinds: int
    ) -> WaysRound | None:
        """Returns the round from *before* to *after*, whose ops are later by *shift*.

        The first *n_kinds* kinds are of ops. Returns None if other events have nodes, or if a path from an op goes to
        an event that is not later by *shift*.
        """
        earlier, later = sorted(before), sorted(after)
        n_ops = sum(kind < n_kinds for kind, _ in later)
        if [*_later(earlier[:n_ops], shift), *earlier[n_ops:]] != later:
            return None
        step = PathRound.between([before[name] for name in earlier], [after[name] for name in later])
        if step is None or any(at < -n_ops for at in step.before):
            return None
        stays = [-1 - number for number in range(n_ops, len(later))]
        return cls(later, n_ops, step) if list(step.event[n_ops:]) == stays else None

    def again(self, ways: dict[EventName, PathNode], n: int, shift: RowShift) -> None:
        """Moves *ways*, which has the nodes of `names`, *n* rounds ahead, each later by *shift*."""
        nodes = [ways[name] for name in self.names]
        for _ in range(n):
            nodes = self.step.again(nodes)
        names = [*_later(self.names[: self.n_ops], shift.times(n)), *self.names[self.n_ops :]]
        ways.clear()
        ways.update(zip(names, nodes, strict=True))


def _later(names: list[EventName], shift: RowShift) -> list[EventName]:
    return [(kind, op_id + shift.ops) for kind, op_id in names]


class Again(NamedTuple):
    """The last window repeats *n* times, each later by *shift*, in *n_chunks* chunks together.

    The new part of a window is the difference to the state *before* it.
    """

    before: WindowState
    n: int
    shift: RowShift
    n_chunks: int


class WindowRepeats:
    """Finds the windows of the log of *survey* that repeat. Its chunks end windows at *ends_ps*.

    A window follows from the rows of its chunks, from the state that the window before left, and from the times of
    commands and programs. So it repeats the window before it if its chunks and that state are equal but for one shift,
    and if no command, program or wait for another program has an event in it.
    """

    def __init__(self, survey: LogSurvey, ends_ps: Sequence[int]) -> None:
        self._shifts, self._ends_ps, self._came_ps = survey.shifts, ends_ps, survey.came_ps
        times = [survey.last_tiles.t_ready_ps]
        tables = survey.tables
        for table in (tables[name] for name in ("commands", "kernels") if name in tables):
            times += [table[name] for name in table.dtype.names or () if name.startswith("t_")]
        waits, signals = (tables.get(name, np.empty(0, TABLE_DTYPES[name])) for name in ("waits", "signals"))
        syncs = SyncCalls(of_programs(waits), signals)
        times += [syncs.t_called, syncs.t_issued, syncs.t_went_on, syncs.t_between, syncs.t_origin]
        self._events_ps = np.unique(np.concatenate(times))
        self._before: WindowState | None = None
        self._left_out_ps = (0, -1)

    def is_left_out(self, first_ps: int, last_ps: int) -> bool:
        """Whether a chunk whose records came between these times belongs to windows that are not followed."""
        return self._left_out_ps[0] <= first_ps and last_ps <= self._left_out_ps[1]

    def may_begin(self, n_chunks: int) -> bool:
        """Whether the chunk behind the first *n_chunks* repeats the one before it."""
        return n_chunks < len(self._shifts) and self._shifts[n_chunks] is not None

    def again(self, state: WindowState) -> Again | None:
        """Returns how often the window that ended in *state* repeats; None if it does not."""
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
        """Leaves out *n_chunks* chunks from number *first* on."""
        self._left_out_ps = self._came_ps[first][0], self._came_ps[first + n_chunks - 1][1]

    def _n_alike(self, first: int, shift: RowShift) -> int:
        """The number of chunks from *first* on that come, and end their windows, *shift* later than the chunk
        before.
        """
        number = first
        while number < len(self._shifts) and self._ends_ps[number] - self._ends_ps[number - 1] == shift.ps:
            if number > first and self._shifts[number] != shift:
                break
            number += 1
        return number - first
