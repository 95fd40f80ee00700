"""Shades of lanes: the share of each moment in which a lane was at work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kb_cli.trace.protobuf import Ints
from kb_cli.trace.transfers import Floats

COLUMNS: Final = 400
"""Pixels of a lane. Each stands for an equal part of the time from the first record to the last."""
LEVELS: Final = 15
"""Shades above none. Work that is less than half a shade is shown as the faintest one."""


class BusyTime:
    """The time that lies in at least one of some spans, to be asked for any moments. *start_ps* ascends."""

    def __init__(self, start_ps: Ints, end_ps: Ints) -> None:
        reached = np.maximum.accumulate(end_ps)
        begin = np.maximum(start_ps, np.concatenate((start_ps[:1], reached[:-1])))
        done = np.concatenate(([0], np.cumsum(np.maximum(reached - begin, 0))))
        # as float64, which a search for moments would make of them each time
        self._begin, self._reached, self._done = (each.astype(np.float64) for each in (begin, reached, done))

    def until(self, t_ps: Floats) -> Floats:
        """The picoseconds of the spans before each of *t_ps*."""
        at = np.searchsorted(self._begin, t_ps, side="right")
        ahead = np.maximum(self._reached[np.maximum(at - 1, 0)] - t_ps, 0)  # of the span that has begun last
        found: Floats = np.where(at > 0, self._done[at] - ahead, 0.0)
        return found

    def shares(self, edges: Floats) -> Floats:
        """The share (0 to 1) of the time between neighbours of *edges*, which ascend, that lies in the spans."""
        found: Floats = np.clip(np.diff(self.until(edges)) / np.diff(edges), 0, 1)
        return found


def coverage(start_ps: Ints, end_ps: Ints, edges: Floats) -> Floats:
    """The share (0 to 1) of the time between neighbours of *edges* that lies in at least one of the spans.

    *start_ps* and *edges* ascend.
    """
    return BusyTime(start_ps, end_ps).shares(edges)


def shades(covered: Floats) -> Ints:
    """The shade of each pixel, 0 to LEVELS. Only what is 0 has shade 0."""
    found: Ints = np.maximum(np.rint(covered * LEVELS), covered > 0).astype(np.int64)
    return found


def folded_names(ids: Sequence[str], noun: str = "PEs") -> str:
    """*ids* in a few words: `sip0.cube0.pe0`, or `8 PEs alike, sip0.cube0.pe0 to sip0.cube0.pe7`."""
    if len(ids) < 3:
        return " and ".join(ids)
    return f"{len(ids)} {noun} alike, {ids[0]} to {ids[-1]}"
