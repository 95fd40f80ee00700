"""The coordinates of a picture, from rows of boxes and the edges between boxes.

Rows stand below each other, with a channel below each row. A channel has a band of labels at each of its two rows, and
between the bands tracks for level lines. A straight line joins neighbours in a row. All other edges are combs: edges of
one kind from one box, the hub, to boxes of one row share a line along a channel, with a tooth for each box. A comb that
crosses a row does so in a gap between two boxes. Each comb has its own track in a channel for its whole length, so no
two lines lie on each other. The label of a comb stands beside its hub, where the next port leaves room for the label.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kb_topology.diagram.chart import Chart, Edge, Heat
from kb_topology.diagram.columns import Columns
from kb_topology.diagram.combs import Combs, label_of
from kb_topology.diagram.drawn.legend import width as legend_width
from kb_topology.diagram.drawn.scene import (
    FOOT,
    HEAD,
    HEADING,
    LABEL,
    LABEL_LINE,
    LINE,
    MARGIN,
    TEXT,
    Label,
    Placed,
    Polyline,
    Scene,
    text_width,
)
from kb_topology.diagram.ports import Ports

Point = tuple[float, float]


def layout(chart: Chart) -> Scene:
    """Every box, line and label of *chart* with its coordinates."""
    return _Layout(chart).scene()


class _Layout:
    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.combs = Combs(chart)
        self.columns = Columns(chart, self.combs)
        self.ports = Ports(self.combs, self.columns)
        self.tracks = Tracks(chart, self.combs, self.ports)
        low, high = self.columns.ends()
        facts = ((fact, LABEL) for fact in chart.facts)
        words = ((chart.title, HEADING), (chart.subtitle, TEXT), (chart.note, LABEL), *facts)
        inner = max(high - low, *(text_width(text, size) for text, size in words), legend_width(chart), 560)
        self.width = inner + 2 * MARGIN
        self.move = MARGIN + (inner - (high - low)) / 2 - low

    def scene(self) -> Scene:
        """The picture: every box, line and label with its coordinates."""
        tops, heights = self.tracks.tops, self.tracks.heights
        boxes = tuple(
            Placed(box, self.columns.lefts[box.key] + self.move, tops[row], self.columns.widths[box.key], heights[row])
            for row, each in enumerate(self.chart.rows)
            for box in each
        )
        paths: list[Polyline] = []
        labels: list[Label] = []
        for ends, edges in self.combs.straight.items():
            for path, text in self._straight(*ends, edges):
                paths.append(path)
                labels += text
        for number in range(len(self.combs.combs)):
            paths += self._comb(number)
            labels += self._comb_labels(number)
        height = tops[-1] + FOOT + LINE * len(self.chart.facts)
        return Scene(self.chart, self.width, height, boxes, tuple(paths), tuple(labels))

    def _straight(self, a: str, b: str, edges: list[Edge]) -> Iterator[tuple[Polyline, list[Label]]]:
        """Lines from *a* to its right neighbour *b*, with half of each label above its line and half below it."""
        row, column = self.combs.at[b]
        top, height = self.tracks.tops[row], self.tracks.heights[row]
        x1, x2 = self.columns.lefts[a] + self.columns.widths[a] + self.move, self.columns.lefts[b] + self.move
        free = x2 - self.columns.lines_width(row, column)
        sizes = [LABEL_LINE * len(label_of([edge])) + 26 for edge in edges]
        y = top + (height - sum(sizes)) / 2
        for edge, size in zip(edges, sizes, strict=True):
            text = label_of([edge])
            above = (len(text) + 1) // 2
            middle = y + 13 + LABEL_LINE * above
            points: tuple[Point, Point] = ((x1, middle), (x2, middle))
            ends = points if edge.a == a else points[::-1]
            both = edge.arrows and not edge.one_way
            path = Polyline(ends, edge.line, edge.arrows, both, edge.tip, edge.heat, edge.count > 1)
            base = [middle - 6 - LABEL_LINE * (above - 1 - i) for i in range(above)]
            base += [middle + 14 + LABEL_LINE * i for i in range(len(text) - above)]
            centre = (x1 + free) / 2
            yield path, [Label(line, centre, each, "middle") for line, each in zip(text, base, strict=True)]
            y += size

    def _comb(self, number: int) -> Iterator[Polyline]:
        """The trunk from the hub, with the level line, and a tooth for each other end."""
        comb = self.combs.combs[number]
        spans = {channel: [x + self.move for x in xs] for channel, xs in self.ports.spans(number).items()}
        tops, heights = self.tracks.tops, self.tracks.heights
        trunk: list[Point] = [(spans[comb.channels[0]][0], tops[comb.hub_row] + heights[comb.hub_row] * comb.down)]
        for channel in comb.channels:
            y = self.tracks.y(number, channel)
            trunk.append((spans[channel][0], y))
            if channel != comb.channels[-1]:
                trunk.append((spans[channel][1], y))
        edge = comb.edges[0]
        to_leaf = edge.arrows and (not edge.one_way or edge.a == comb.hub)
        to_hub = edge.arrows and (not edge.one_way or edge.b == comb.hub)
        x, y = trunk[-1]
        end = tops[comb.leaf_row] + heights[comb.leaf_row] * comb.at_leaf_bottom
        leaves = spans[comb.channels[-1]][1:]
        if len(leaves) == 1:
            points = _plain((*trunk, (leaves[0], y), (leaves[0], end)))
            ends = points[::-1] if to_hub else points
            both = to_hub and to_leaf
            yield Polyline(ends, edge.line, to_hub or to_leaf, both, edge.tip, edge.heat, edge.count > 1)
            return
        heats = [each.heat for each in comb.edges if each.heat is not None]
        top = Heat(max(heat.top for heat in heats), max(heat.mean for heat in heats)) if heats else None
        tip = "\n".join(each.tip for each in comb.edges)
        bundle = bool(edge.label)
        yield Polyline(_plain(tuple(trunk[::-1])), edge.line, to_hub, tip=tip, heat=top, bundle=bundle)
        for low, high in ((min([x, *leaves]), x), (x, max([x, *leaves]))):
            if low < high:
                yield Polyline(((low, y), (high, y)), edge.line, tip=tip, heat=top, bundle=bundle)
        for leaf, each in zip(leaves, comb.edges, strict=True):
            ends = (leaf, y), (leaf, end)
            yield Polyline(ends, edge.line, to_leaf, tip=each.tip, heat=each.heat, bundle=each.count > 1)

    def _comb_labels(self, number: int) -> list[Label]:
        """The label to the right of the trunk, as near to the hub as lines and arrows allow."""
        comb = self.combs.combs[number]
        x = self.ports.at[comb.hub, comb.down][number] + self.move + 5
        text = comb.label
        top = self.tracks.tops[comb.hub_row]
        first = top + self.tracks.heights[comb.hub_row] + 13 if comb.down else top - 6 - LABEL_LINE * (len(text) - 1)
        return [Label(line, x, first + LABEL_LINE * i) for i, line in enumerate(text)]


def _plain(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """*points* without repetitions and without points in the middle of a straight piece."""
    found: list[Point] = []
    for point in points:
        if found and found[-1] == point:
            continue
        while len(found) > 1 and (found[-2][0] == found[-1][0] == point[0] or found[-2][1] == found[-1][1] == point[1]):
            found.pop()
        found.append(point)
    return tuple(found)


TRACK, STUB, EMPTY = 12, 14, 28
"""Pixels between tracks, from a box to the first track without labels, and of a channel without lines."""
_APART = 12


class Tracks:
    """The vertical places: the y of each row, and of the level line of each comb in each of its channels."""

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
