"""LaneTable: slices of lanes, queried for any window of time. Its answers are exact, however long the window is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.report.pictures.lanes import BusyTime
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_cli.trace.transfers import Floats
from kb_messages import KbError

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
FULL: Final = 255
"""The coverage of a full pixel, 0 to 255. Only a pixel without coverage has 0."""


class Kinds(NamedTuple):
    """The kind of each slice, as an index of *texts*, by the colouring called *name*."""

    name: str
    number: Bytes
    texts: Sequence[str]


class ShownSlices(NamedTuple):
    """Slices of a lane, the first of which has the number *first* in its table. *name* is the number of each name."""

    first: int
    start_ps: Ints
    end_ps: Ints
    kind: Bytes
    name: Ints


class LaneWindow(NamedTuple):
    """The content of a lane in a window: either its *slices*, or *cover* and *kind* of each pixel.

    *kind* has one element where all pixels are of one kind.
    """

    lane: int
    slices: ShownSlices | None
    cover: Bytes | None = None
    kind: Bytes | None = None


class LaneSums(NamedTuple):
    """The sums of each lane in a window: the time of its slices, in ps, and their number."""

    busy_ps: Ints
    n_slices: Ints


class LaneTable:
    """The slices of *slices* by lane, which is a place that has slices.

    *stages* and *lines* are the stage and the kernel line of each of the names of the slices. `start_ps` and `end_ps`
    are sorted by lane and then by time. Slices of a lane do not overlap.
    """

    def __init__(self, slices: Slices, stages: Sequence[str], lines: Sequence[str]) -> None:
        self.slices, self.stages, self.lines = slices, stages, lines
        self.start_ps, self.end_ps = slices.start_ps, slices.end_ps
        self._firsts = np.flatnonzero(np.diff(slices.track, prepend=-1))
        self._lasts = np.append(self._firsts[1:], len(slices.track))
        self.lanes: list[TrackPlace] = [slices.places[track] for track in slices.track[self._firsts].tolist()]
        self._busy: dict[tuple[int, str], list[tuple[int, BusyTime]]] = {}

    def rows(self, lane: int) -> slice:
        """Returns the slices of *lane*. Raises KbError where there is no such lane."""
        if not 0 <= lane < len(self.lanes):
            raise KbError("lane", str(lane), f"0 to {len(self.lanes) - 1}" if self.lanes else "none, without slices")
        return slice(int(self._firsts[lane]), int(self._lasts[lane]))

    def lane_of(self, row: int) -> int:
        """Returns the lane of the slice *row*."""
        return int(np.searchsorted(self._firsts, row, side="right")) - 1

    def window(self, lane: int, edges: Floats, kinds: Kinds, few: int) -> LaneWindow:
        """Returns the content of *lane* between the *edges* of pixels, as slices where these are at most *few*."""
        rows = self.rows(lane)
        from_ps, until_ps = int(edges[0]), ceil(edges[-1])  # whole numbers, for which no column is converted
        first = int(np.searchsorted(self.end_ps[rows], from_ps, side="right"))
        last = int(np.searchsorted(self.start_ps[rows], until_ps))
        if last - first <= few:
            return LaneWindow(lane, self._shown(slice(rows.start + first, rows.start + max(last, first)), kinds))
        parts = self._parts(lane, kinds)
        shares = np.stack([busy.shares(edges) for _, busy in parts])
        cover = np.clip(np.rint(shares.sum(axis=0) * FULL), shares.max(axis=0) > 0, FULL).astype(np.uint8)
        numbers = np.array([number for number, _ in parts], np.uint8)
        return LaneWindow(lane, None, cover, numbers if len(numbers) == 1 else numbers[np.argmax(shares, axis=0)])

    def _shown(self, rows: slice, kinds: Kinds) -> ShownSlices:
        start, end, name = (each[rows] for each in (self.start_ps, self.end_ps, self.slices.name))
        return ShownSlices(rows.start, start, end, kinds.number[rows], name)

    def _parts(self, lane: int, kinds: Kinds) -> list[tuple[int, BusyTime]]:
        """Returns the busy time of *lane* by kind, computed once."""
        found = self._busy.get((lane, kinds.name))
        if found is None:
            rows = self.rows(lane)
            number, start, end = kinds.number[rows], self.start_ps[rows], self.end_ps[rows]
            which = {kind: number == kind for kind in np.unique(number).tolist()}
            found = [(kind, BusyTime(start[mine], end[mine])) for kind, mine in which.items()]
            self._busy[lane, kinds.name] = found
        return found

    def busy_share(self, lane: int, start_ps: int, end_ps: int) -> float:
        """Returns the share (0 to 1) of a window in which *lane* is at work."""
        found = self._parts(lane, Kinds("", np.zeros(len(self.start_ps), np.uint8), ("",)))
        return sum(float(busy.shares(np.array([start_ps, end_ps], np.float64))[0]) for _, busy in found)

    def within(self, start_ps: int, end_ps: int, chosen: Mask) -> LaneSums:
        """Returns the sums of each lane from *start_ps* to *end_ps*, over the slices that *chosen*, one bool each,
        takes.

        Times are cut off at both ends of the window. A slice without length counts at its time.
        """
        there = chosen & (self.start_ps < end_ps) & (np.maximum(self.end_ps, self.start_ps + 1) > start_ps)
        cut = np.minimum(self.end_ps, end_ps) - np.maximum(self.start_ps, start_ps)
        cut[~there] = 0
        sums = [
            np.add.reduceat(each, self._firsts) if len(self._firsts) else each for each in (cut, there.astype(np.int64))
        ]
        return LaneSums(*sums)

    def at(self, lane: int, t_ps: int) -> int | None:
        """Returns the slice of *lane* at *t_ps*, None where there is none. A slice without length counts at its
        time.
        """
        rows = self.rows(lane)
        at = int(np.searchsorted(self.start_ps[rows], t_ps, side="right")) - 1 + int(rows.start)
        if at < rows.start or t_ps >= max(int(self.end_ps[at]), int(self.start_ps[at]) + 1):
            return None
        return at

    def nearest_edge(self, lane: int, t_ps: int, window: tuple[int, int]) -> int | None:
        """Returns the begin or end of a slice of *lane* that is nearest to *t_ps* and lies in *window*; None where
        the window has none.
        """
        rows = self.rows(lane)
        found: list[int] = []
        for times in (self.start_ps[rows], self.end_ps[rows]):
            at = int(np.searchsorted(times, t_ps))
            found += times[max(at - 1, 0) : at + 1].tolist()
        seen = [time for time in found if window[0] <= time <= window[1]]
        return min(seen, key=lambda time: (abs(time - t_ps), time), default=None)

    @cached_property
    def busy_of_lanes(self) -> Ints:
        """The picoseconds of all slices of each lane."""
        found: Ints = np.add.reduceat(self.busy_ps(), self._firsts) if len(self._firsts) else self._firsts
        return found

    def busy_ps(self) -> Ints:
        """Returns the picoseconds of each slice."""
        found: Ints = self.end_ps - self.start_ps
        return found
