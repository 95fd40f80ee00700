"""Fused mode: windows of the log are resolved symbolically, their matrix products joined into few large ones.

Math on their results, and all else, runs in batches of equal ops. A window is evaluated against the memory as it is
before, then what it leaves behind is written: releases first, then the live values. A window that `Dataflow` finds
irregular, or that reads bytes which are not initialised, is halved until its parts are regular or small; small ones
run tile by tile, which also gives every error its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kb_dataexec.execute.fused.batches import Batches
from kb_dataexec.execute.fused.cells import IrregularError
from kb_dataexec.execute.fused.dataflow import Dataflow
from kb_dataexec.execute.fused.window import Window
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import one_by_one as tilewise

_WORTH_FUSING: Final = 64
_WINDOW: Final = 1 << 17
_LARGEST_WINDOW: Final = 1 << 18


def run(
    schedule: Schedule, store: MemoryStore, start: int, stop: int, progress: Callable[[int], None] | None = None
) -> None:
    """Execute records [start, stop) of *schedule* on *store*; *progress* gets the number of records done.

    Raises LogError and StoreError as tile mode does.
    """
    pending = list(reversed(_windows(schedule, start, stop)))
    while pending:
        low, high = pending.pop()
        if high - low < max(_WORTH_FUSING, 2):
            tilewise.run(schedule, store, low, high)
        elif not _run_window(schedule, store, low, high):
            middle = _middle(schedule, low, high)
            pending += [(middle, high), (low, middle)]
            continue
        if progress is not None:
            progress(high)


def _run_window(schedule: Schedule, store: MemoryStore, start: int, stop: int) -> bool:
    try:
        with np.errstate(all="ignore"):
            flow = Dataflow(schedule, start, stop)
            window = Window(flow, Batches(flow, schedule, start), store)
            window.evaluate()
    except (IrregularError, StoreError):
        return False
    window.commit()
    return True


def _windows(schedule: Schedule, start: int, stop: int) -> list[tuple[int, int]]:
    """[start, stop) in windows of whole commands: big ones alone, small ones together, huge ones in parts."""
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


def _edges(schedule: Schedule, column: str, start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where *column* changes, strictly between *start* and *stop*."""
    return np.flatnonzero(np.diff(schedule.ops[column][start:stop])) + start + 1


def _middle(schedule: Schedule, start: int, stop: int) -> int:
    """Where to halve: between commands if there are several, else between tiles, else between records."""
    middle = (start + stop) // 2
    for column in ("command_seq", "tile_id"):
        edges = _edges(schedule, column, start, stop)
        if len(edges):
            return int(edges[np.argmin(np.abs(edges - middle))])
    return middle
