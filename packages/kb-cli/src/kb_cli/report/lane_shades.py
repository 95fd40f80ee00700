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


def coverage(start_ps: Ints, end_ps: Ints, edges: Floats) -> Floats:
    """The share (0 to 1) of the time between neighbours of *edges* that lies in at least one of the spans.

    *start_ps* and *edges* ascend.
    """
    reached = np.maximum.accumulate(end_ps)
    begin = np.maximum(start_ps, np.concatenate((start_ps[:1], reached[:-1])))
    length = np.maximum(reached - begin, 0)
    done = np.concatenate(([0], np.cumsum(length)))
    at = np.searchsorted(begin, edges, side="right")
    last = np.maximum(at - 1, 0)
    within = np.clip(edges - begin[last], 0, length[last])
    busy = np.where(at > 0, done[last] + within, 0.0)
    found: Floats = np.clip(np.diff(busy) / np.diff(edges), 0, 1)
    return found


def shades(covered: Floats) -> Ints:
    """The shade of each pixel, 0 to LEVELS. Only what is 0 has shade 0."""
    found: Ints = np.maximum(np.rint(covered * LEVELS), covered > 0).astype(np.int64)
    return found


def folded_names(ids: Sequence[str], noun: str = "PEs") -> str:
    """*ids* in a few words: `sip0.cube0.pe0`, or `8 PEs alike, sip0.cube0.pe0 to sip0.cube0.pe7`."""
    if len(ids) < 3:
        return " and ".join(ids)
    return f"{len(ids)} {noun} alike, {ids[0]} to {ids[-1]}"
