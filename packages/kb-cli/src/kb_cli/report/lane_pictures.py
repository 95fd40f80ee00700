"""Thumbnails of lanes: how much of each moment a block was at work, as one small picture for each PE."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kb_cli.report.lane_shades import COLUMNS, LEVELS, coverage, shades
from kb_cli.report.memory_lanes import MemoryLanes, memory_lanes
from kb_cli.report.png import shaded_png
from kb_cli.trace.arrange import is_pe, pe_order
from kb_cli.trace.op_slices import op_slices
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices
from kb_dataexec import OpLog


class LanePicture(NamedTuple):
    """The lanes of each of *groups*, PEs that look alike: a title for each row of the picture, and the PNG.

    A pixel is as dark as the share of its time in which the lane was at work. Nothing is sampled.
    """

    groups: list[str]
    titles: list[str]
    png: bytes


class Lanes(NamedTuple):
    """The pictures of a run, which all reach from *start_ps* to *end_ps*: those of PEs, and that of memories."""

    start_ps: int
    end_ps: int
    pictures: list[LanePicture]
    memories: MemoryLanes | None


def lane_pictures(log: OpLog, where: str) -> Lanes | None:
    """The lanes of *log*: every block and stage of each PE, in the order of the pipeline, and the memories.

    None without records. Raises LogError, which begins with *where*, for records that end before they begin.
    """
    if not log.n_ops:
        return None
    slices = op_slices(log.ops, log.strings, where)
    start, end = int(slices.start_ps.min()), int(slices.end_ps.max())
    edges = np.linspace(start, max(end, start + 1), COLUMNS + 1)
    by_group: dict[str, list[tuple[str, Ints]]] = {}
    for (group, title), rows in _lanes(slices).items():
        if is_pe(group):
            rows = rows[np.argsort(slices.start_ps[rows], kind="stable")]
            covered = coverage(slices.start_ps[rows], slices.end_ps[rows], edges)
            by_group.setdefault(group, []).append((title, shades(covered)))
    alike: dict[tuple[tuple[str, ...], bytes], list[str]] = {}
    for group in sorted(by_group, key=pe_order):
        titles = tuple(title for title, _ in by_group[group])
        pixels = np.stack([row for _, row in by_group[group]])
        alike.setdefault((titles, shaded_png(pixels, LEVELS)), []).append(group)
    pictures = [LanePicture(groups, list(key[0]), key[1]) for key, groups in alike.items()]
    return Lanes(start, end, pictures, memory_lanes(log, edges))


def _lanes(slices: Slices) -> dict[tuple[str, str], Ints]:
    """The numbers of the slices of each lane. Overlapping services of one block are one lane."""
    firsts = np.flatnonzero(np.diff(slices.track, prepend=-1))
    parts: dict[tuple[str, str], list[Ints]] = {}
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(slices.track)], strict=True):
        place = slices.places[slices.track[first]]
        parts.setdefault((place.group, place.title), []).append(np.arange(first, last))
    return {lane: np.concatenate(found) for lane, found in parts.items()}
