"""FoldTable: parts of a chip, such as a PE, a cube or all PEs, each folded into one strip of heat."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from kb_cli.trace.protobuf import Ints
from kb_cli.trace.transfers import Floats
from kb_cli.web.lanes.lane_table import FULL, Kinds, LaneTable, LaneWindow
from kb_cli.web.lanes.span_sums import SpanSums


class Fold(NamedTuple):
    """The part *name* of a chip, such as `sip0.cube3`, or "" for all: the lanes from *first* to before *last*, and the
    units from *first_unit* to before *last_unit*.
    """

    name: str
    first: int
    last: int
    first_unit: int
    last_unit: int


def folds_of(units: Sequence[str]) -> list[Fold]:
    """Returns the folds over lanes that belong to *units*, one name for each lane; lanes of a unit stand together.

    A lane of the unit "" belongs to no fold, and such lanes stand in front. A fold stands before its parts.
    """
    lanes_of, units_of = dict[str, list[int]](), dict[str, list[int]]()
    number = -1
    for lane, (before, unit) in enumerate(pairwise(["", *units])):
        if not unit:
            continue
        number += unit != before
        for name in ("", *accumulate(unit.split("."), "{}.{}".format)):
            lanes_of.setdefault(name, []).append(lane)
            units_of.setdefault(name, []).append(number)
    return [
        Fold(name, min(lanes), max(lanes) + 1, min(units_of[name]), max(units_of[name]) + 1)
        for name, lanes in lanes_of.items()
    ]


class FoldTable:
    """The folds of the lanes of *table*, which belong to *units*.

    A unit, such as a PE, is at work while at least one of its lanes is. The share of a fold is the mean of its units.
    """

    def __init__(self, table: LaneTable, units: Sequence[str]) -> None:
        self._table, self.units = table, units
        self.folds = folds_of(units)
        self._totals: dict[int, SpanSums] = {}
        self._kinds: dict[tuple[int, str], list[tuple[int, SpanSums]]] = {}

    def window(self, lane: int, edges: Floats, kinds: Kinds, _few: int) -> LaneWindow:
        """Returns the heat of the fold *lane* between the *edges* of pixels: the share of time, and the kind that had
        most of it.
        """
        fold = self.folds[lane]
        pixel_ps = np.diff(edges) * (fold.last_unit - fold.first_unit)
        shares = self._total(lane).between(edges) / pixel_ps
        cover = np.clip(np.rint(shares * FULL), shares > 0, FULL).astype(np.uint8)
        parts = self._parts(lane, kinds)
        numbers = np.array([number for number, _ in parts], np.uint8)
        if len(parts) > 1:
            numbers = numbers[np.argmax(np.stack([sums.between(edges) for _, sums in parts]), axis=0)]
        return LaneWindow(lane, None, cover, numbers)

    def rows(self, lane: int) -> slice:
        """Returns the slices of the fold *lane*."""
        fold = self.folds[lane]
        return slice(self._table.rows(fold.first).start, self._table.rows(fold.last - 1).stop)

    @cached_property
    def busy_ps(self) -> Ints:
        """The picoseconds for which each fold is at work, over all of its units."""
        start, end, firsts = self._united
        done = np.concatenate(([0], np.cumsum(end - start)))
        return np.array([done[firsts[each.last_unit]] - done[firsts[each.first_unit]] for each in self.folds], np.int64)

    @cached_property
    def last_rows(self) -> list[int]:
        """For each fold, the slice that ends last; of several, the first one."""
        table, found = self._table, []
        for lane in range(len(self.folds)):
            rows = self.rows(lane)
            found.append(rows.start + int(np.argmax(table.end_ps[rows])))
        return found

    @cached_property
    def _united(self) -> tuple[Ints, Ints, Ints]:
        """Begin and end of the spans in which units are at work, by unit, and the first span of each unit, with an end
        behind the last one.
        """
        table = self._table
        lanes = [table.rows(lane) for lane in range(len(self.units))]
        is_new = [bool(unit) and unit != before for before, unit in pairwise(["", *self.units])]
        unit_of_lane = np.cumsum(np.array(is_new, np.int64)) - 1
        unit = np.repeat(unit_of_lane, np.array([rows.stop - rows.start for rows in lanes], np.int64))
        first = int(np.searchsorted(unit, 0))
        start, end, unit = table.start_ps[first:], table.end_ps[first:], unit[first:]
        n_units = int(unit[-1]) + 1 if len(unit) else 0
        if not len(start):
            return start, end, np.zeros(n_units + 1, np.int64)
        low, apart = int(start.min()), int(end.max() - start.min()) + 1
        shift = unit * apart - low  # units one behind the other, so that one pass over all finds their spans
        order = np.argsort(start + shift, kind="stable")
        begin, reached = (start + shift)[order], np.maximum.accumulate((end + shift)[order])
        begin[1:] = np.maximum(begin[1:], reached[:-1])
        kept = reached > begin
        begin, reached, unit = begin[kept], reached[kept], unit[kept]
        firsts = np.searchsorted(unit, np.arange(n_units + 1))
        shift = unit * apart - low
        return begin - shift, reached - shift, firsts

    def _total(self, lane: int) -> SpanSums:
        found = self._totals.get(lane)
        if found is None:
            start, end, firsts = self._united
            fold = self.folds[lane]
            rows = slice(firsts[fold.first_unit], firsts[fold.last_unit])
            found = self._totals[lane] = SpanSums(start[rows], end[rows])
        return found

    def _parts(self, lane: int, kinds: Kinds) -> list[tuple[int, SpanSums]]:
        """Returns the sums of the fold *lane* by kind, computed once."""
        found = self._kinds.get((lane, kinds.name))
        if found is None:
            rows = self.rows(lane)
            number, start, end = kinds.number[rows], self._table.start_ps[rows], self._table.end_ps[rows]
            which = {kind: number == kind for kind in np.flatnonzero(np.bincount(number)).tolist()}
            found = [(kind, SpanSums(start[mine], end[mine])) for kind, mine in which.items()]
            self._kinds[lane, kinds.name] = found
        return found
