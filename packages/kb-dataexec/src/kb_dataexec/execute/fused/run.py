"""Fused mode: executes a log in windows of many records, with few large matrix products.

A window is resolved symbolically, and its matrix products are joined into few large ones. All other ops run in batches
of equal ops. A window reads the memory as it is before the window. Afterwards the released bytes are un-initialised and
the live values are written. No window has an op together with an op that it depends on by the table `dependencies`.
A window that is irregular, or that reads bytes which are not initialised, is halved until its parts are regular or
small. Small windows run one record at a time, so that every error names its record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np

from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.execute.fused.window import FusedWindow
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import one_by_one

FUSE_FROM: Final = 64
"""Records of the smallest window that is fused."""
_WINDOW: Final = 1 << 17
"""Records of a window of several small commands."""
_LARGEST_WINDOW: Final = 1 << 18
"""Records of the largest window. A command with more is cut."""


def run(
    schedule: Schedule,
    store: MemoryStore,
    start: int,
    stop: int,
    progress: Callable[[int], None] | None = None,
    fuse_from: int = FUSE_FROM,
) -> None:
    """Executes records [start, stop) of *schedule* on *store*. *progress* gets the number of records done.

    Windows of fewer than *fuse_from* records run one record at a time. Raises LogError and StoreError, which name the
    op.
    """
    pending = list(reversed(_apart(schedule, _windows(schedule, start, stop))))
    while pending:
        low, high = pending.pop()
        if high - low < max(fuse_from, 2):
            one_by_one.run(schedule, store, low, high)
        elif not _run_window(schedule, store, low, high):
            middle = _middle(schedule, low, high)
            pending += [(middle, high), (low, middle)]
            continue
        if progress is not None:
            progress(schedule.n_records(high))


def _run_window(schedule: Schedule, store: MemoryStore, start: int, stop: int) -> bool:
    """Executes records [start, stop) as one window. Returns False, with *store* unchanged, if they have to be cut."""
    try:
        with np.errstate(all="ignore"):
            window = FusedWindow(schedule, store, start, stop)
            window.evaluate()
    except (IrregularError, StoreError):
        return False
    window.commit()
    return True


def _windows(schedule: Schedule, start: int, stop: int) -> list[tuple[int, int]]:
    """Returns [start, stop) cut into windows of whole commands. Small commands share a window; huge commands are
    cut."""
    windows: list[tuple[int, int]] = []
    for edge in [*_edges(schedule, "command_seq", start, stop).tolist(), stop]:
        if windows and edge - windows[-1][0] <= _WINDOW:
            windows[-1] = (windows[-1][0], edge)
            continue
        low = windows[-1][1] if windows else start
        while edge - low > _LARGEST_WINDOW:
            windows.append((low, low + _LARGEST_WINDOW))
            low += _LARGEST_WINDOW
        windows.append((low, edge))
    return [window for window in windows if window[0] < window[1]]


def _apart(schedule: Schedule, windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """*windows*, cut before each record that depends explicitly on a record of the same window."""
    cuts: list[tuple[int, int]] = []
    followers, leaders = schedule.followers.tolist(), schedule.leaders.tolist()
    for low, high in windows:
        at = bisect_right(followers, low)
        while at < len(followers) and followers[at] < high:
            if leaders[at] >= low:
                cuts.append((low, followers[at]))
                low = followers[at]
            at += 1
        cuts.append((low, high))
    return cuts


def _edges(schedule: Schedule, column: str, start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The records between *start* and *stop*, both excluded, at which *column* changes."""
    return np.flatnonzero(np.diff(schedule.ops[column][start:stop])) + start + 1


def _middle(schedule: Schedule, start: int, stop: int) -> int:
    """The record at which to halve: between commands if there are several, else between tiles, else anywhere."""
    middle = (start + stop) // 2
    for column in ("command_seq", "tile_id"):
        edges = _edges(schedule, column, start, stop)
        if len(edges):
            return int(edges[np.argmin(np.abs(edges - middle))])
    return middle
