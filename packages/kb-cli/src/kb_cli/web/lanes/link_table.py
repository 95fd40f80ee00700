"""LinkTable: the links of a chip over time, and the parts of the chip that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import LINKS
from kb_cli.trace.slices import by_number
from kb_cli.trace.tracks import TrackPlace
from kb_cli.trace.traffic import used_by
from kb_cli.trace.transfers import DmaFlow, Floats
from kb_cli.web.lanes.fold_table import folds_of
from kb_cli.web.lanes.lane_table import FULL, Kinds, LaneWindow
from kb_cli.web.lanes.span_sums import RateSums
from kb_engine.observe import Chip
from kb_messages import KbError

USED: Final = "links"
"""The one kind of a link."""


class LinkTable:
    """The links that *flows* used, sorted by the part of the chip that holds both ends.

    The share of a pixel is the used part of the bandwidth; bytes of a service count evenly over its time. The share of
    a fold is the mean of its links.
    """

    def __init__(self, flows: Sequence[DmaFlow], chip: Chip) -> None:
        self._flows = flows
        by_link: dict[TrackPlace, dict[int, float]] = {}
        for number, uses in enumerate(used_by(flows, chip)):
            for each, share in uses.items():
                if each.place.group == LINKS:
                    by_link.setdefault(each.place, {})[number] = share * PS_PER_NS / each.gbs
        self.lanes = sorted(by_link, key=lambda place: (by_number(_holder(place.title)), by_number(place.title)))
        self._uses = [by_link[place] for place in self.lanes]
        self.units = [_holder(place.title) for place in self.lanes]
        self.folds = folds_of(self.units)
        self._sums: dict[tuple[int, int], RateSums] = {}

    def window(self, lane: int, edges: Floats, _kinds: Kinds, _few: int) -> LaneWindow:
        """Returns the use of the link *lane* between the *edges* of pixels."""
        if not 0 <= lane < len(self.lanes):
            raise KbError("lane", str(lane), f"0 to {len(self.lanes) - 1}" if self.lanes else "none, without links")
        return self._window(lane, lane, lane + 1, edges)

    def folded(self, lane: int, edges: Floats) -> LaneWindow:
        """Returns the mean use of the links of the fold *lane* between the *edges* of pixels."""
        return self._window(lane, self.folds[lane].first, self.folds[lane].last, edges)

    def busy_ps(self, first: int, last: int) -> int:
        """Returns the picoseconds that the links from *first* to before *last* would need at full bandwidth."""
        rates = self._rates(first, last)
        return round(sum(rate * float(self._flows[flow].nbytes.sum()) for flow, rate in rates.items()))

    def _window(self, lane: int, first: int, last: int, edges: Floats) -> LaneWindow:
        sums = self._sums.get((first, last))
        if sums is None:
            sums = self._sums[first, last] = self._new_sums(self._rates(first, last))
        shares = sums.between(edges) / np.diff(edges) / (last - first)
        cover = np.clip(np.rint(shares * FULL), shares > 1e-9, FULL).astype(np.uint8)  # above the sums' own error
        return LaneWindow(lane, None, cover, np.zeros(1, np.uint8))

    def _rates(self, first: int, last: int) -> dict[int, float]:
        """Returns, for each flow, the picoseconds of a link that a byte of it takes, summed over links."""
        found = dict[int, float]()
        for uses in self._uses[first:last]:
            for flow, rate in uses.items():
                found[flow] = found.get(flow, 0.0) + rate
        return found

    def _new_sums(self, rates: dict[int, float]) -> RateSums:
        flows = [self._flows[number] for number in rates]
        start = np.concatenate([np.empty(0, np.int64), *(each.start_ps for each in flows)])
        end = np.concatenate([start[:0], *(np.maximum(each.end_ps, each.start_ps + 1) for each in flows)])
        nbytes = np.concatenate([start[:0], *(each.nbytes for each in flows)])
        rate = np.repeat(list(rates.values()), [len(each.nbytes) for each in flows])
        return RateSums(start, end, nbytes * rate / np.maximum(end - start, 1))


class LinkFolds:
    """The folds of the links of *table*, as lanes."""

    def __init__(self, table: LinkTable) -> None:
        self._table = table
        self.folds = table.folds

    def window(self, lane: int, edges: Floats, _kinds: Kinds, _few: int) -> LaneWindow:
        """Returns the mean use of the links of the fold *lane* between the *edges* of pixels."""
        return self._table.folded(lane, edges)


def _holder(title: str) -> str:
    """Returns the smallest part of the chip that has both ends of a link: `sip0` for links between its cubes."""
    ends = [each.split(".") for each in title.split(" -> ")]
    shared = next((at for at, names in enumerate(zip(*ends, strict=False)) if len(set(names)) > 1), 1)
    return ".".join(ends[0][:shared]) or "system"
