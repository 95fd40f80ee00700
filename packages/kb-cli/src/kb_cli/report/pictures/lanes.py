"""Lanes as pictures: the share of each moment in which a block or a memory was at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_cli.report.elements.equal_pes import equal_pes, folded_names
from kb_cli.report.pictures.lane_strips import Strip, strips
from kb_cli.report.pictures.png import LEVELS, shaded_png, shades
from kb_cli.trace.arrange import is_pe, pe_order
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.slices import by_number, op_slices
from kb_cli.trace.tracks import Slices
from kb_cli.trace.transfers import Floats
from kb_dataexec import OpLog
from kb_dataexec.analysis import memory_spans

MOST_PICTURES: Final = 4
"""The most PEs of which all lanes are shown one below the other. Source: assumed; half a screen."""
COLUMNS: Final = 400
"""The pixels of a lane. Each stands for an equal part of the time from the first record to the last."""


class BusyTime:
    """The time that lies in at least one of some spans, queried for any moments. *start_ps* ascends."""

    def __init__(self, start_ps: Ints, end_ps: Ints) -> None:
        reached = np.maximum.accumulate(end_ps)
        begin = np.maximum(start_ps, np.concatenate((start_ps[:1], reached[:-1])))
        done = np.concatenate(([0], np.cumsum(np.maximum(reached - begin, 0))))
        # as float64, which a search for moments would make of them each time
        self._begin, self._reached, self._done = (each.astype(np.float64) for each in (begin, reached, done))

    def until(self, t_ps: Floats) -> Floats:
        """Returns the picoseconds of the spans before each of *t_ps*."""
        at = np.searchsorted(self._begin, t_ps, side="right")
        ahead = np.maximum(self._reached[np.maximum(at - 1, 0)] - t_ps, 0)  # of the span that has begun last
        found: Floats = np.where(at > 0, self._done[at] - ahead, 0.0)
        return found

    def shares(self, edges: Floats) -> Floats:
        """Returns the share (0 to 1) of the time between neighbours of *edges*, which ascend, that lies in the
        spans.
        """
        found: Floats = np.clip(np.diff(self.until(edges)) / np.diff(edges), 0, 1)
        return found


def coverage(start_ps: Ints, end_ps: Ints, edges: Floats) -> Floats:
    """Returns the share (0 to 1) of the time between neighbours of *edges* that lies in at least one of the spans.

    *start_ps* and *edges* ascend.
    """
    return BusyTime(start_ps, end_ps).shares(edges)


MOST: Final = 64
"""The most lanes of a picture, 1024 pixels. More would be a page of their own."""


class MemoryLanes(NamedTuple):
    """A picture with a row for each of *titles*, groups of memories with equal rows. *n_left_out* counts quieter
    groups.
    """

    titles: list[str]
    png: bytes
    n_left_out: int


def memory_lanes(log: OpLog, edges: Floats) -> MemoryLanes | None:
    """Returns the lanes of the memories that DMAs of *log* used; None where the log lacks them. Pixels lie between
    *edges*.

    Of more than MOST groups, the busiest are shown.
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


class LanePicture(NamedTuple):
    """The lanes of each of *groups*, PEs with equal pictures: a title for each row of the picture, and the PNG.

    A pixel is as dark as the share of its time in which the lane was at work. Nothing is sampled.
    """

    groups: list[str]
    titles: list[str]
    png: bytes


class MarkedPe(NamedTuple):
    """A PE that readers look for, and when its last record ended, after `Lanes.start_ps`."""

    what: str
    pe: str
    end_ps: int


class Lanes(NamedTuple):
    """The pictures of a run: *pictures* of PEs and one of *memories*. All reach from *start_ps* to *end_ps*.

    Where there are more than MOST_PICTURES of PEs, *strips* has a row for each group of PEs, and *marked* the PEs that
    end first and last, and the one in the middle.
    """

    start_ps: int
    end_ps: int
    pictures: list[LanePicture]
    memories: MemoryLanes | None
    strips: Sequence[Strip] = ()
    marked: Sequence[MarkedPe] = ()


def lane_pictures(log: OpLog, where: str) -> Lanes | None:
    """Returns the lanes of *log*: every block and stage of each PE, in the order of the pipeline, and the memories.

    Returns None without records. Raises LogError, which begins with *where*, for records that end before they begin.
    """
    if not log.n_ops:
        return None
    slices = op_slices(log.ops, log.strings, where)
    start, end = int(slices.start_ps.min()), int(slices.end_ps.max())
    edges = np.linspace(start, max(end, start + 1), COLUMNS + 1)
    by_pe: dict[str, dict[str, Floats]] = {}
    ends: dict[str, tuple[int, int]] = {}
    for (group, title), rows in _lanes(slices).items():
        if is_pe(group):
            starts, stops = slices.start_ps[rows], slices.end_ps[rows]
            order = np.argsort(starts, kind="stable")
            by_pe.setdefault(group, {})[title] = coverage(starts[order], stops[order], edges)
            last, busy = ends.get(group, (0, 0))
            ends[group] = max(last, int(stops.max()) - start), busy + int((stops - starts).sum())
    alike: dict[tuple[tuple[str, ...], bytes], list[str]] = {}
    for pe in sorted(by_pe, key=pe_order):
        pixels = np.stack([shades(covered) for covered in by_pe[pe].values()])
        alike.setdefault((tuple(by_pe[pe]), shaded_png(pixels, LEVELS)), []).append(pe)
    pictures = [LanePicture(pes, list(key[0]), key[1]) for key, pes in alike.items()]
    found = Lanes(start, end, pictures, memory_lanes(log, edges))
    if len(pictures) <= MOST_PICTURES:
        return found
    kinds = {pe: number for number, each in enumerate(pictures) for pe in each.groups}
    return found._replace(strips=strips(equal_pes(kinds), by_pe), marked=_marked(ends))


def _marked(ends: Mapping[str, tuple[int, int]]) -> list[MarkedPe]:
    """Returns the PE that ends last, the one in the middle, and the one that ends first. Of PEs that end together, the
    one with more work counts as later.
    """
    order = sorted(ends, key=lambda pe: (ends[pe], pe_order(pe)))
    places = ("ends last", -1), ("in the middle", len(order) // 2), ("ends first", 0)
    return [MarkedPe(what, order[at], ends[order[at]][0]) for what, at in places]


def _lanes(slices: Slices) -> dict[tuple[str, str], Ints]:
    """Returns the numbers of the slices of each lane. Overlapping services of one block are one lane."""
    firsts = np.flatnonzero(np.diff(slices.track, prepend=-1))
    parts: dict[tuple[str, str], list[Ints]] = {}
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(slices.track)], strict=True):
        place = slices.places[slices.track[first]]
        parts.setdefault((place.group, place.title), []).append(np.arange(first, last))
    return {lane: np.concatenate(found) for lane, found in parts.items()}
