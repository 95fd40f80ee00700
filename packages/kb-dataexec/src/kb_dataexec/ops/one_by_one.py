"""Tile mode: executes one record at a time, in order. It is the reference for every other way of executing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kb_dataexec.backends.blas_threads import single_threaded
from kb_dataexec.log.rows import Op
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops import gemm, math, memory
from kb_dataexec.ops.slot_releases import RELEASE_KIND
from kb_messages import OpKind

RUN: Final[dict[int, Callable[[Op, MemoryStore], None]]] = {
    OpKind.MEMORY: memory.run,
    OpKind.GEMM: gemm.run,
    OpKind.MATH: math.run,
    RELEASE_KIND: memory.release,
}
"""The function that executes a record, by its kind."""
_BLOCK = 4096


def run(
    schedule: Schedule, store: MemoryStore, start: int, stop: int, progress: Callable[[int], None] | None = None
) -> None:
    """Executes records [start, stop) of *schedule* on *store*. *progress* gets the number of records of
    the log that are done.

    BLAS works on one thread, because tiles are small. Raises LogError and StoreError, which name the op.
    """
    with np.errstate(all="ignore"), single_threaded():
        for block in range(start, stop, _BLOCK):
            end = min(stop, block + _BLOCK)
            for op in schedule.iterate(block, end):
                RUN[op.kind](op, store)
            if progress is not None:
                progress(schedule.n_records(end))
