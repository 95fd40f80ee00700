"""CycleSearch and SparseCycleSearch: find two equal states among the last snapshots of a simulation, at little cost.

Design: docs/design/steady-state.md

A snapshot is expensive, so one is taken only where the times to the next events are equal to earlier times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeAlias

from kb_engine.fastforward.steady_state.period_skipper import SnapshotT

Signature: TypeAlias = tuple[object, ...]
"""The times to the next events, and the kind of what comes next."""
Take: TypeAlias = Callable[[], SnapshotT | None]
"""Returns a snapshot of now, or None where there is none or it would cost too much."""
MayRepeat: TypeAlias = Callable[[SnapshotT], bool]
"""Whether what was simulated since a snapshot may be repeated, if the state is equal."""
Found: TypeAlias = tuple[SnapshotT, SnapshotT] | None

_MOST_SNAPSHOTS: Final = 8
"""The snapshots with equal times that are kept. Source: assumed; ranges of TCM that take turns need a few."""
_MOST_SIGNATURES: Final = 256
_FIRST_LIMIT: Final = 2
_MOST_SEEN: Final = 1 << 12


class CycleSearch(Generic[SnapshotT]):
    """Keeps the snapshots so far, by the times to the next events."""

    def __init__(self) -> None:
        self._snapshots: dict[Signature, list[SnapshotT]] = {}

    def restart(self) -> None:
        """Forgets all snapshots."""
        self._snapshots.clear()

    def find(self, signature: Signature, take: Take[SnapshotT], may_repeat: MayRepeat[SnapshotT]) -> Found[SnapshotT]:
        """Returns the last earlier snapshot of the present state that *may_repeat*, and the present snapshot, or
        None."""
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
            if snapshot.is_like(earlier) and may_repeat(earlier):
                return earlier, snapshot
        known.append(snapshot)
        del known[:-_MOST_SNAPSHOTS]
        return None


class SparseCycleSearch(Generic[SnapshotT]):
    """Keeps one snapshot, and compares it with the states at all tiles of one kind, such as the first tiles of output
    tiles."""

    __slots__ = ("_kept", "_left", "_limit", "_quiet", "_seen", "_signature", "_wait")

    def __init__(self) -> None:
        self._signature: Signature = ()
        self.restart()

    def restart(self) -> None:
        """Forgets the snapshot."""
        self._kept: SnapshotT | None = None
        self._left = self._limit = _FIRST_LIMIT
        self._quiet, self._wait = 0, 1
        self._seen: set[Signature] = set()

    def find(self, signature: Signature, take: Take[SnapshotT], may_repeat: MayRepeat[SnapshotT]) -> Found[SnapshotT]:
        """Returns the kept snapshot, if it has the present state and *may_repeat*, and the present snapshot, or None.

        After a false alarm, which is a snapshot with equal times and another state, it waits twice as long as before.
        """
        kept = self._kept
        if self._quiet:
            self._quiet -= 1
        elif kept is not None and self._signature == signature and may_repeat(kept):
            snapshot = take()
            if snapshot is not None and snapshot.is_like(kept):
                return kept, snapshot
            if snapshot is not None:
                self._kept = snapshot
                self._quiet = self._wait
                self._wait *= 2
        self._keep_sometimes(signature, take)
        return None

    def _keep_sometimes(self, signature: Signature, take: Take[SnapshotT]) -> None:
        """Keeps a snapshot if it is time to, and if its *signature* was seen before."""
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
