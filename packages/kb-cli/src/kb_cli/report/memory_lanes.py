"""Lanes of memories: how much of each moment the bytes of a request held a memory."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_cli.report.lane_shades import LEVELS, coverage, folded_names, shades
from kb_cli.report.png import shaded_png
from kb_cli.trace.memory_slices import by_number
from kb_cli.trace.transfers import Floats
from kb_dataexec import OpLog
from kb_dataexec.analysis import memory_spans

MOST: Final = 64
"""Lanes of a picture, 1024 pixels. More would be a page of their own."""


class MemoryLanes(NamedTuple):
    """A picture with a row for each of *titles*, memories that look alike, and how many quieter kinds are left out."""

    titles: list[str]
    png: bytes
    n_left_out: int


def memory_lanes(log: OpLog, edges: Floats) -> MemoryLanes | None:
    """The memories that DMAs of *log* used, by number; None where the log does not tell. Pixels lie between *edges*.

    Of more than MOST kinds, the busiest are shown.
    """
    if "transfers" in log.missing:
        return None
    spans = memory_spans(log)
    memory, start, end = (np.ascontiguousarray(spans[name]) for name in ("memory", "start_ps", "end_ps"))
    order = np.lexsort((start, memory))
    firsts = np.flatnonzero(np.diff(memory[order], prepend=-1))
    alike: dict[bytes, list[str]] = {}
    for rows in np.split(order, firsts[1:]) if len(order) else []:
        covered = coverage(start[rows], end[rows], edges)
        name = log.strings[memory[rows[0]]]
        alike.setdefault(shades(covered).astype(np.uint8).tobytes(), []).append(name)
    if not alike:
        return None
    busiest = sorted(alike, key=lambda pixels: -sum(pixels))[:MOST]
    kinds = {pixels: sorted(alike[pixels], key=by_number) for pixels in busiest}
    shown = sorted(busiest, key=lambda pixels: by_number(kinds[pixels][0]))
    pixels = np.stack([np.frombuffer(each, np.uint8) for each in shown]).astype(np.int64)
    titles = [folded_names(kinds[each], "memories") for each in shown]
    return MemoryLanes(titles, shaded_png(pixels, LEVELS), len(alike) - len(shown))
