"""CycleSearch: finds two equal states among the last snapshots of a simulation, at little cost.

Design: docs/design/steady-state.md

A snapshot is expensive, so one is taken only where the times to the next events are equal to earlier times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kb_engine.fastforward.steady_state.tile_snapshot import TileSnapshot
from kb_engine.observe.recorder import LogMark, Recorder

SnapshotT = TypeVar("SnapshotT")

_MOST_SNAPSHOTS: Final = 8
"""The snapshots with equal times that are kept. Source: assumed; ranges of TCM that take turns need a few."""
_MOST_SIGNATURES: Final = 256


class HeldRecords:
    """The records of *recorder*, held while periods are searched, so that they can be repeated. None without a log."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._are_held = False

    def mark(self) -> LogMark | None:
        """Holds all records from now on. Returns the present position in them."""
        if self._recorder is None:
            return None
        if not self._are_held:
            self._recorder.hold()
            self._are_held = True
        return self._recorder.mark()

    def can_repeat(self, mark: LogMark | None, n_ops: int) -> bool:
        """Whether the records since *mark* are complete for *n_ops* ops."""
        return self._recorder is None or mark is None or self._recorder.can_repeat(mark, n_ops)

    def repeat(self, mark: LogMark | None, n: int, ps: int, ops: int) -> None:
        """Repeats the records since *mark* *n* times, each time later by *ps* and *ops*."""
        if self._recorder is not None and mark is not None:
            self._recorder.repeat(mark, n, ps, ops)

    def release(self) -> None:
        """Holds no more records."""
        if self._recorder is not None and self._are_held:
            self._recorder.let_go()
            self._are_held = False


class CycleSearch(Generic[SnapshotT]):
    """Keeps the snapshots so far, by the times to the next events."""

    def __init__(self) -> None:
        self._snapshots: dict[Signature, list[SnapshotT]] = {}

    def restart(self) -> None:
        """Forgets all snapshots."""
        self._snapshots.clear()

    def earlier(
        self,
        signature: Signature,
        take: Callable[[], SnapshotT | None],
        is_equal: Callable[[SnapshotT, SnapshotT], bool],
    ) -> tuple[SnapshotT, SnapshotT] | None:
        """Returns the last earlier snapshot of the present state, and the present snapshot, or None."""
        known = self._snapshots.get(signature)
        if known is None:
            if len(self._snapshots) >= _MOST_SIGNATURES:
                self._snapshots.clear()
            self._snapshots[signature] = []
            return None
        snapshot = take()
        if snapshot is None:
            return None
        for earlier in reversed(known):
            if is_equal(earlier, snapshot):
                return earlier, snapshot
        known.append(snapshot)
        del known[:-_MOST_SNAPSHOTS]
        return None


Signature = tuple[object, ...]
Take = Callable[[], "TileSnapshot | None"]

_FIRST_LIMIT: Final = 2
_MOST_SEEN: Final = 1 << 12


class TileCycleSearch:
    """Compares snapshots at all tiles of one kind, such as the first tiles of output tiles. It keeps one snapshot."""

    __slots__ = ("_kept", "_left", "_limit", "_quiet", "_seen", "_signature", "_wait")

    def __init__(self) -> None:
        self._kept: TileSnapshot | None = None
        self._signature: Signature = ()
        self.restart()

    def restart(self) -> None:
        """Forgets the snapshot."""
        self._kept = None
        self._left = self._limit = _FIRST_LIMIT
        self._quiet, self._wait = 0, 1
        self._seen: set[Signature] = set()

    def earlier(self, signature: Signature) -> TileSnapshot | None:
        """Returns the snapshot, if its *signature* is the present one and no false alarm is recent."""
        if self._quiet:
            self._quiet -= 1
            return None
        return self._kept if self._signature == signature else None

    def false_alarm(self, snapshot: TileSnapshot) -> None:
        """Keeps *snapshot*, which was not equal to the snapshot, and waits twice as long before the next comparison."""
        self._kept = snapshot
        self._quiet = self._wait
        self._wait *= 2

    def passes(self, signature: Signature, take: Take) -> None:
        """Notes a state that was equal to no snapshot. Keeps it if it is time to, and if its signature was seen
        before."""
        self._left -= 1
        if self._kept is not None and self._left > 0:
            return
        if signature not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(signature)
            return
        snapshot = take()
        if snapshot is None:
            return
        if self._kept is not None:
            self._limit *= 2
        self._kept, self._signature, self._left = snapshot, signature, self._limit
