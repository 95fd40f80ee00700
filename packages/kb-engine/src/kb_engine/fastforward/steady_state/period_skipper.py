"""PeriodSkipper: what all searches of two equal states share: snapshots, their records, and the shift.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from kb_dataexec.log.compressed import LogMark
from kb_engine.block.state_visitor import NotPeriodic
from kb_engine.fastforward.steady_state.state_snapshot import StateShift, StateSnapshot
from kb_engine.observe.recorder import Recorder
from kb_engine.timing.clock import Clock

SnapshotT = TypeVar("SnapshotT", bound=StateSnapshot)
ShiftT = TypeVar("ShiftT", bound=StateShift)


class PeriodSkipper(ABC, Generic[SnapshotT, ShiftT]):
    """Skips periods on *clock* of what a subclass knows: tiles of a command, or programs of a grid.

    The records of *recorder*, if there is a log, are held while periods are searched, so that they can be repeated.
    `skipped` counts the tiles or programs that were not simulated.
    """

    def __init__(self, clock: Clock, recorder: Recorder | None) -> None:
        self._clock = clock
        self._recorder = recorder
        self._holds_records = False
        self.skipped = 0

    @abstractmethod
    def _begin_snapshot(self, mark: LogMark | None) -> SnapshotT:
        """Returns a snapshot of now, which has visited nothing yet."""

    @abstractmethod
    def _visit(self, over: SnapshotT | ShiftT, entries: Sequence[Any]) -> None:
        """Hands the state, with the *entries* of the clock, to *over*. Raises NotPeriodic for a part without a snapshot
        now."""

    @property
    @abstractmethod
    def _next_op(self) -> int:
        """The number of the next op."""

    def _take_snapshot(self, entries: Sequence[Any]) -> SnapshotT | None:
        """Returns a snapshot, or None where a part has no snapshot now."""
        mark = None
        if self._recorder is not None:
            if not self._holds_records:
                self._recorder.hold()
                self._holds_records = True
            mark = self._recorder.rows.mark()
        snapshot = self._begin_snapshot(mark)
        try:
            self._visit(snapshot, entries)
        except NotPeriodic:
            return None
        return snapshot

    def _has_records_since(self, earlier: SnapshotT) -> bool:
        """Whether the records since the *earlier* snapshot can be repeated."""
        if self._recorder is None or earlier.mark is None:
            return True
        return self._recorder.rows.can_repeat(earlier.mark, self._next_op - earlier.next_op)

    def _wrote_records_since(self, earlier: SnapshotT) -> bool:
        """Whether records since the *earlier* snapshot are written already."""
        if self._recorder is None or earlier.mark is None:
            return False
        return self._recorder.rows.mark().flushes != earlier.mark.flushes

    def _move_on(self, shift: ShiftT, entries: Sequence[Any]) -> None:
        """Moves the state on by *shift*, and repeats the records of its period."""
        self._visit(shift, entries)
        mark = shift.before.mark
        if self._recorder is not None and mark is not None:
            self._recorder.repeat(mark, shift.n, shift.ps // shift.n, shift.ops // shift.n)

    def _release_records(self) -> None:
        """Holds no more records."""
        if self._recorder is not None and self._holds_records:
            self._recorder.let_go()
            self._holds_records = False
