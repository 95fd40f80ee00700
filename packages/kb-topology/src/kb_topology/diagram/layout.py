"""From rows of boxes and the edges between boxes to coordinates.

Rows stand below each other, with a channel below each row. A straight line joins neighbours in a row. All other edges
are combs: edges of one kind from one box, the hub, to boxes of one row share a line along a channel, with a tooth for
each box. A comb that crosses a row does so in a gap between two boxes. Each comb has its own track in a channel for its
whole length, so no two lines lie on each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct

from kb_topology.diagram.chart import Box, Chart, Edge
from kb_topology.diagram.scene import (
    FOOT,
    HEAD,
    LABEL,
    LINE,
    MARGIN,
    TEXT,
    TITLE,
    Label,
    Placed,
    Polyline,
    Scene,
    text_width,
)

GAP, TRACK, TOOTH = 28, 24, 14
"""Distances in pixels: between boxes, between tracks of a channel, and between lines at one box or in one gap."""
_SHIFTS, _CLEAR = (3, 2, 4, 1, 5, 0, 6, -1, -2, -3, -4, -5, -6), 6
"""The pixels by which ports may move aside, best first, and the distance in pixels that separates two lines."""


class _Comb(Struct):
    """Edges of one label between *hub* and boxes of row *leaf_row*. `gaps` has, by row, the gap that it crosses."""

    hub: str
    hub_row: int
    leaf_row: int
    edge: Edge
    leaves: list[str]
    gaps: dict[int, tuple[int, int]] = {}

    @property
    def down(self) -> bool:
        return self.hub_row <= self.leaf_row

    @property
    def crossed(self) -> range:
        low, high = sorted((self.hub_row, self.leaf_row))
        return range(low + 1, high)

    @property
    def channels(self) -> list[int]:
        """The channels of the comb, from the hub to the leaves. Channel i is below row i."""
        if self.hub_row == self.leaf_row:
            return [self.hub_row]
        low, high = sorted((self.hub_row, self.leaf_row))
        found = list(range(low, high))
        return found if self.down else found[::-1]


def layout(chart: Chart) -> Scene:
    """Every box, line and label of *chart* with its coordinates."""
    return _Layout(chart).scene()


class _Layout:
    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.at = {box.key: (r, c) for r, row in enumerate(chart.rows) for c, box in enumerate(row)}
        straight = [edge for edge in chart.edges if self._neighbours(edge)]
        self.straight = [self._left_first(edge) for edge in straight]
        self.combs = self._combs(edge for edge in chart.edges if not self._neighbours(edge))
        self.ports = self._ports()
        self.widths = self._widths()
        self.heights = [max(_height(box) for box in row) for row in chart.rows]
        self.gap_lines: Counter[tuple[int, int]] = Counter()
        self.lefts = self._lefts()
        self._choose_gaps()
        self.lefts = self._lefts()
        self.shifts = {key: self._shift(key) for key in self.at}
        self.tracks, self.tops = self._tracks()

    def _neighbours(self, edge: Edge) -> bool:
        (row_a, col_a), (row_b, col_b) = self.at[edge.a], self.at[edge.b]
        return row_a == row_b and abs(col_a - col_b) == 1

    def _left_first(self, edge: Edge) -> tuple[str, str, Edge]:
        ordered = self.at[edge.a] < self.at[edge.b]
        return (edge.a, edge.b, edge) if ordered else (edge.b, edge.a, edge)

    def _combs(self, edges: Iterable[Edge]) -> list[_Comb]:
        every = list(edges)
        degree = Counter((key, edge.label, edge.line) for edge in every for key in (edge.a, edge.b))
        combs: dict[tuple[object, ...], _Comb] = {}
        for edge in every:
            a_is_hub = degree[edge.a, edge.label, edge.line] >= degree[edge.b, edge.label, edge.line]
            hub, leaf = (edge.a, edge.b) if a_is_hub else (edge.b, edge.a)
            hub_row, leaf_row = self.at[hub][0], self.at[leaf][0]
            outward = edge.arrows and a_is_hub
            key = (hub, leaf_row, edge.label, edge.line, edge.arrows, edge.one_way, outward)
            comb = combs.setdefault(key, _Comb(hub, hub_row, leaf_row, edge, []))
            comb.leaves.append(leaf)
        return list(combs.values())

    def _ports(self) -> dict[tuple[str, bool], list[int]]:
        """The combs that end at the top (False) and at the bottom (True) of every box, in order."""
        ports: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for number, comb in enumerate(self.combs):
            same_row = comb.hub_row == comb.leaf_row
            ports[comb.hub, comb.down].append(number)
            for leaf in comb.leaves:
                ports[leaf, same_row or not comb.down].append(number)
        return ports

    def _widths(self) -> dict[str, float]:
        widths: dict[str, float] = {}
        for row in self.chart.rows:
            for box in row:
                text = max(text_width(box.title, TITLE), *(text_width(line, TEXT) for line in (*box.lines, "")))
                ends = max(len(self.ports.get((box.key, side), ())) for side in (False, True))
                need = max(text + 24, TOOTH * (ends + 1), 72)
                widths[box.style] = max(widths.get(box.style, 0), need)
        return widths

    def _gap(self, row: int, after: int) -> float:
        """The width of the gap in *row* before box *after*."""
        labels = [
            text_width(edge.label, LABEL) + 20 for a, b, edge in self.straight if self.at[b] == (row, after) and a
        ]
        return max(GAP, *labels, TOOTH * (self.gap_lines[row, after] + 1), 0)

    def _lefts(self) -> dict[str, float]:
        """The left edge of every box; rows are centred."""
        rows = []
        for number, row in enumerate(self.chart.rows):
            x, lefts = 0.0, []
            for column, box in enumerate(row):
                x += self._gap(number, column) if column or self.gap_lines[number, 0] else 0
                lefts.append(x)
                x += self.widths[box.style]
            if self.gap_lines[number, len(row)]:
                x += self._gap(number, len(row))
            rows.append((lefts, x))
        self.inner_width = max([width for _, width in rows] + [self._least_width()])
        return {
            box.key: MARGIN + (self.inner_width - width) / 2 + left
            for row, (lefts, width) in zip(self.chart.rows, rows, strict=True)
            for box, left in zip(row, lefts, strict=True)
        }

    def _least_width(self) -> float:
        chart = self.chart
        return max(text_width(chart.title, 18), text_width(chart.subtitle, TEXT), text_width(chart.note, LABEL), 480)

    def _choose_gaps(self) -> None:
        """Sends every comb that crosses a row through the gap nearest to the middle of its ends."""
        for comb in self.combs:
            centres = [self._centre(key) for key in (comb.hub, *comb.leaves)]
            middle = (min(centres) + max(centres)) / 2
            for row in comb.crossed:
                boxes = self.chart.rows[row]
                edges = [self.lefts[box.key] - GAP / 2 for box in boxes]
                edges.append(self.lefts[boxes[-1].key] + self.widths[boxes[-1].style] + GAP / 2)
                gap = min(range(len(edges)), key=lambda i: abs(edges[i] - middle))
                comb.gaps = {**comb.gaps, row: (gap, self.gap_lines[row, gap])}
                self.gap_lines[row, gap] += 1

    def _centre(self, key: str) -> float:
        row, column = self.at[key]
        return self.lefts[key] + self.widths[self.chart.rows[row][column].style] / 2

    def _gap_x(self, comb: _Comb, row: int) -> float:
        gap, number = comb.gaps[row]
        boxes = self.chart.rows[row]
        if gap < len(boxes):
            return self.lefts[boxes[gap].key] - TOOTH * (number + 1)
        return self.lefts[boxes[-1].key] + self.widths[boxes[-1].style] + TOOTH * (number + 1)

    def _port_x(self, key: str, bottom: bool, number: int) -> float:
        ends = self.ports[key, bottom]
        shift = 0 if bottom else self.shifts[key]
        return self._port_xs(key, bottom)[ends.index(number)] + shift

    def _port_xs(self, key: str, bottom: bool) -> list[float]:
        count = len(self.ports.get((key, bottom), ()))
        return [self.lefts[key] + self.widths[self._box(key).style] * (i + 1) / (count + 1) for i in range(count)]

    def _shift(self, key: str) -> int:
        """The pixels by which the ports on top of a box move aside, to keep clear of ports from the row above."""
        tops = self._port_xs(key, False)
        if len(tops) < 2:
            return 0
        above = [x for box in self.chart.rows[self.at[key][0] - 1] for x in self._port_xs(box.key, True)]
        return max(_SHIFTS, key=lambda shift: min([_CLEAR, *(abs(x + shift - y) for x in tops for y in above)]))

    def _spans(self, number: int) -> dict[int, list[float]]:
        """The x of the ends and gaps that a comb joins in each of its channels."""
        comb = self.combs[number]
        here = self._port_x(comb.hub, comb.down, number)
        spans: dict[int, list[float]] = {}
        for channel in comb.channels:
            row = channel + 1 if comb.down else channel
            if row in comb.gaps:
                there = self._gap_x(comb, row)
                spans[channel] = [here, there]
                here = there
            else:
                bottom = comb.hub_row == comb.leaf_row or not comb.down
                spans[channel] = [here, *(self._port_x(leaf, bottom, number) for leaf in comb.leaves)]
        return spans

    def _tracks(self) -> tuple[dict[tuple[int, int], int], list[float]]:
        """The track of every comb in each of its channels, and the top of every row."""
        taken: dict[int, list[list[tuple[float, float]]]] = defaultdict(list)
        tracks: dict[tuple[int, int], int] = {}
        for number, comb in enumerate(self.combs):
            for channel, xs in self._spans(number).items():
                low, high = min(xs) - 6, max(max(xs) + 6, xs[0] + text_width(comb.edge.label, LABEL) + 12)
                rows = taken[channel]
                free = (t for t, spans in enumerate(rows) if all(high < a or b < low for a, b in spans))
                track = next(free, len(rows))
                if track == len(rows):
                    rows.append([])
                rows[track].append((low, high))
                tracks[number, channel] = track
        tops = [float(HEAD)]
        for row, height in enumerate(self.heights):
            tops.append(tops[-1] + height + TRACK * (len(taken[row]) + 1) if taken[row] else tops[-1] + height + GAP)
        return tracks, tops

    def _track_y(self, number: int, channel: int) -> float:
        return self.tops[channel] + self.heights[channel] + TRACK * (self.tracks[number, channel] + 1)

    def _paths(self, number: int) -> list[Polyline]:
        comb = self.combs[number]
        spans = self._spans(number)
        side = self.tops[comb.hub_row] + (self.heights[comb.hub_row] if comb.down else 0)
        bottom = comb.hub_row == comb.leaf_row or not comb.down
        end = self.tops[comb.leaf_row] + (self.heights[comb.leaf_row] if bottom else 0)
        trunk = [(spans[comb.channels[0]][0], side)]
        for channel in comb.channels:
            y = self._track_y(number, channel)
            trunk.append((spans[channel][0], y))
            if channel != comb.channels[-1]:
                trunk.append((spans[channel][1], y))
        x, y = trunk[-1]
        edge = comb.edge
        to_leaf = edge.arrows and (not edge.one_way or edge.a == comb.hub)
        to_hub = edge.arrows and (not edge.one_way or edge.b == comb.hub)
        leaves = spans[comb.channels[-1]][1:]
        teeth = [Polyline(((x, y), (leaf, y), (leaf, end)), edge.line, to_leaf) for leaf in leaves]
        return [Polyline(tuple(trunk[::-1]), edge.line, to_hub), *teeth]

    def _straight(self) -> Iterable[tuple[Polyline, Label]]:
        seen: Counter[tuple[str, str]] = Counter()
        total = Counter((a, b) for a, b, _ in self.straight)
        for a, b, edge in self.straight:
            row = self.at[a][0]
            seen[a, b] += 1
            y = self.tops[row] + self.heights[row] * seen[a, b] / (total[a, b] + 1)
            x1, x2 = self.lefts[a] + self.widths[self._box(a).style], self.lefts[b]
            points = ((x1, y), (x2, y)) if edge.a == a else ((x2, y), (x1, y))
            path = Polyline(points, edge.line, edge.arrows, edge.arrows and not edge.one_way)
            yield path, Label(edge.label, (x1 + x2) / 2, y - 5, "middle")

    def _box(self, key: str) -> Box:
        row, column = self.at[key]
        return self.chart.rows[row][column]

    def scene(self) -> Scene:
        boxes = tuple(
            Placed(box, self.lefts[box.key], self.tops[row], self.widths[box.style], self.heights[row])
            for row, each in enumerate(self.chart.rows)
            for box in each
        )
        straight = list(self._straight())
        paths = [path for path, _ in straight]
        labels = [label for _, label in straight if label.text]
        for number, comb in enumerate(self.combs):
            paths += self._paths(number)
            if comb.edge.label:
                channel = comb.channels[0]
                x = self._spans(number)[channel][0]
                labels.append(Label(comb.edge.label, x + 5, self._track_y(number, channel) - 5))
        right = max((label.x + text_width(label.text, LABEL) for label in labels if label.anchor == "start"), default=0)
        width = max(self.inner_width + 2 * MARGIN, right + MARGIN / 2)
        return Scene(self.chart, width, self.tops[-1] + FOOT, boxes, tuple(paths), tuple(labels))


def _height(box: Box) -> float:
    return 22 + LINE * len(box.lines) + 10
