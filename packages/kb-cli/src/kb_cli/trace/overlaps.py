"""Rows for services that overlap: a track shows one slice at a time."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from kb_cli.trace.protobuf import Ints


def rows_without_overlap(lane: Ints, start_ps: Ints, end_ps: Ints) -> Ints:
    """For each slice, the first row of its lane that is free at its start, counted from 0.

    The slices are sorted by lane, then by start. Most blocks of kernbench serve one tile at a time, so their slices
    need row 0 alone. A DMA with several transfers under way needs more, and so may logs of other simulators.
    """
    row = np.zeros(len(lane), np.int64)
    touches = (lane[1:] == lane[:-1]) & (start_ps[1:] < end_ps[:-1])
    for each in np.unique(lane[1:][touches]).tolist():
        first, last = np.searchsorted(lane, (each, each + 1)).tolist()
        row[first:last] = _rows(start_ps[first:last].tolist(), end_ps[first:last].tolist())
    return row


def _rows(starts: list[int], ends: list[int]) -> list[int]:
    busy: list[tuple[int, int]] = []
    """(end, row) of the slices that are not over."""
    free: list[int] = []
    found: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        row = heappop(free) if free else len(busy)
        heappush(busy, (end, row))
        found.append(row)
    return found
