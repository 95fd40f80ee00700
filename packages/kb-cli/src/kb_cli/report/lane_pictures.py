"""Thumbnails of lanes: how much of each moment a block was at work, as one small picture for each PE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_cli.report.png import shaded_png
from kb_cli.trace.arrange import is_pe, pe_order
from kb_cli.trace.op_slices import op_slices
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices
from kb_cli.trace.transfers import Floats
from kb_dataexec import OpLog

COLUMNS: Final = 400
"""Pixels of a lane. Each stands for an equal part of the time from the first record to the last."""
LEVELS: Final = 15
"""Shades above none. Work that is less than half a shade is shown as the faintest one."""


class LanePicture(NamedTuple):
    """The lanes of each of *groups*, PEs that look alike: a title for each row of the picture, and the PNG.

    A pixel is as dark as the share of its time in which the lane was at work. Nothing is sampled.
    """

    groups: list[str]
    titles: list[str]
    png: bytes


class Lanes(NamedTuple):
    """The pictures of a run, which all reach from *start_ps* to *end_ps*."""

    start_ps: int
    end_ps: int
    pictures: list[LanePicture]


def lane_pictures(log: OpLog, where: str) -> Lanes | None:
    """The lanes of *log*: every block and stage of each PE, in the order of the pipeline; None without records.

    Raises LogError, which begins with *where*, for records that end before they begin.
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
    return Lanes(start, end, [LanePicture(groups, list(key[0]), key[1]) for key, groups in alike.items()])


def _lanes(slices: Slices) -> dict[tuple[str, str], Ints]:
    """The numbers of the slices of each lane. Overlapping services of one block are one lane."""
    firsts = np.flatnonzero(np.diff(slices.track, prepend=-1))
    parts: dict[tuple[str, str], list[Ints]] = {}
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(slices.track)], strict=True):
        place = slices.places[slices.track[first]]
        parts.setdefault((place.group, place.title), []).append(np.arange(first, last))
    return {lane: np.concatenate(found) for lane, found in parts.items()}


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


def folded_names(pes: Sequence[str]) -> str:
    """*pes* in a few words: `sip0.cube0.pe0`, or `8 PEs, sip0.cube0.pe0 to sip0.cube0.pe7`."""
    if len(pes) < 3:
        return " and ".join(pes)
    return f"{len(pes)} PEs alike, {pes[0]} to {pes[-1]}"
