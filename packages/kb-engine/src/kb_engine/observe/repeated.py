"""Rows that come again and again, each time later, and of later ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kb_engine.observe.int64s import int64s


def repeated(rows: Sequence[int], width: int, n: int, steps: Mapping[int, int], absent: int | None = None) -> list[int]:
    """*rows* of *width* numbers, *n* times, one after the other. The first time each column has grown by its step.

    Numbers equal to *absent* stay as they are. Raises LogError for a time that does not fit 64 bits.
    """
    table = np.frombuffer(int64s(rows), dtype=np.int64).reshape(1, -1, width)
    step = np.zeros(width, dtype=np.int64)
    for column, by in steps.items():
        step[column] = by
    grown = np.arange(1, n + 1, dtype=np.int64)[:, None, None] * step
    found = table + grown
    if absent is not None:
        found = np.where(table == absent, table, found)
    return found.ravel().tolist()
