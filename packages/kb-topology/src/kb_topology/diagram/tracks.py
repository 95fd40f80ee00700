"""The channels between rows: a band of labels at each row, and between the bands tracks for level lines."""

from __future__ import annotations

from collections import defaultdict

from kb_topology.diagram.chart import Chart
from kb_topology.diagram.combs import Combs, label_of
from kb_topology.diagram.ports import Ports
from kb_topology.diagram.scene import HEAD, LABEL_LINE, LINE

TRACK, STUB, EMPTY = 12, 14, 28
"""Pixels between tracks, from a box to the first track without labels, and of a channel without lines."""
_APART = 12


class Tracks:
    """The y of rows and of the level line of every comb in each of its channels."""

    def __init__(self, chart: Chart, combs: Combs, ports: Ports) -> None:
        self.combs = combs
        self.heights = [max(46 + LINE * len(box.lines) - 8 * (not box.lines) for box in row) for row in chart.rows]
        for (a, _), edges in combs.straight.items():
            row = combs.at[a][0]
            need = sum(LABEL_LINE * len(label_of([edge])) + 26 for edge in edges)
            self.heights[row] = max(self.heights[row], need)
        self.bands: dict[tuple[int, bool], int] = defaultdict(lambda: STUB)
        for comb in combs.combs:
            if comb.label:
                key = comb.hub_row, comb.down
                self.bands[key] = max(self.bands[key], LABEL_LINE * len(comb.label) + 10)
        self._taken: dict[int, list[list[tuple[float, float]]]] = defaultdict(list)
        self._track: dict[tuple[int, int], int] = {}
        self._choose(ports)
        self.tops = [float(HEAD)]
        for row, height in enumerate(self.heights):
            count = len(self._taken[row])
            bands = self.bands[row, True] + self.bands[row + 1, False]
            self.tops.append(self.tops[-1] + height + (bands + TRACK * (count - 1) if count else EMPTY))

    def _choose(self, ports: Ports) -> None:
        """Gives every comb the first track on which it has room in each of its channels, short combs first."""
        wanted = []
        for number in range(len(self.combs.combs)):
            for channel, xs in ports.spans(number).items():
                wanted.append((channel, max(xs) - min(xs), number, min(xs), max(xs)))
        for channel, _, number, low, high in sorted(wanted):
            rows = self._taken[channel]
            free = (t for t, spans in enumerate(rows) if all(high + _APART < a or b + _APART < low for a, b in spans))
            track = next(free, len(rows))
            if track == len(rows):
                rows.append([])
            rows[track].append((low, high))
            self._track[number, channel] = track

    def y(self, number: int, channel: int) -> float:
        """The y of the level line of comb *number* in *channel*."""
        return (
            self.tops[channel]
            + self.heights[channel]
            + self.bands[channel, True]
            + TRACK * self._track[number, channel]
        )
