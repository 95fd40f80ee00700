"""The places of boxes from left to right: as near to their neighbours in other rows as the boxes beside them allow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil, floor, inf

from kb_topology.diagram.chart import Box, Chart
from kb_topology.diagram.combs import Combs, label_of
from kb_topology.diagram.drawn.scene import LABEL, TEXT, TITLE, text_width

GRID = 24
"""Lefts and widths of boxes are multiples of this many pixels, so that lines of different rows miss each other."""
GAP = 24
_SWEEPS = 8
_FIXED = 1e9
"""The weight of a box of a column, against that of any other box."""


def cell_of(label: Sequence[str]) -> int:
    """The pixels from a port to the next port. A label fits between the two."""
    return GRID * ceil((max(text_width(text, LABEL) for text in label) + 10) / GRID) if label else GRID


def _snapped(x: float) -> int:
    """The multiple of GRID nearest to *x*. Halves go up, so two numbers that are at least GRID apart stay so."""
    return GRID * floor(x / GRID + 0.5 + 1e-9)


class Columns:
    """The left edge and the width of every box of *chart*, in pixels from some zero.

    `gaps` maps each comb and each row that the comb crosses to the box after the gap and the number of its line there.
    """

    def __init__(self, chart: Chart, combs: Combs) -> None:
        self.chart, self.combs = chart, combs
        self.cells: dict[tuple[str, bool], list[int]] = {
            side: [cell_of(combs.combs[n].label if combs.combs[n].hub == side[0] else ()) for n in numbers]
            for side, numbers in combs.ports.items()
        }
        self.widths = self._widths()
        self.gap_lines: Counter[tuple[int, int]] = Counter()
        self.gaps: list[dict[int, tuple[int, int]]] = [{} for _ in combs.combs]
        self.lefts = self._placed()
        self._choose_gaps()
        self.lefts = self._placed()

    def _widths(self) -> dict[str, int]:
        widths: dict[str, int] = {}
        for box in (box for row in self.chart.rows for box in row):
            need = self._least_width(box)
            for bottom in (False, True):
                cells = self.cells.get((box.key, bottom), [])
                side = 0 if box.is_small else 2 * GRID
                need = max(need, sum(cells) + side if len(cells) > 1 else 2 * sum(cells))
            like = box.like or box.key
            # centres of a column are below one another where halves of widths lie on the grid too
            step = GRID if box.column is None else 2 * GRID
            widths[like] = max(widths.get(like, 0), step * ceil(need / step))
        return {box.key: widths[box.like or box.key] for row in self.chart.rows for box in row}

    @staticmethod
    def _least_width(box: Box) -> float:
        """The width of *box* that its text needs."""
        lines = [text_width(line, TEXT) for line in box.lines]
        if box.is_small:
            return max(text_width(box.title, TEXT), *lines, 0.0) + 6
        return max(text_width(box.title, TITLE), *lines, 52.0) + 20

    def gap(self, row: int, after: int) -> int:
        """The least width of the gap in *row* before box *after*."""
        boxes = self.chart.rows[row]
        between = (boxes[after - 1].key, boxes[after].key) if 0 < after < len(boxes) else ("", "")
        labels = [
            text_width(text, LABEL) + 20 for edge in self.combs.straight.get(between, ()) for text in label_of([edge])
        ]
        arrows = [
            float(GAP if edge.says == "nothing" else 40) for edge in self.combs.straight.get(between, ()) if edge.arrows
        ]
        return GRID * ceil(max([GAP, *labels, *arrows]) / GRID) + self.lines_width(row, after)

    def lines_width(self, row: int, after: int) -> int:
        """The right part of the gap in *row* before box *after*. Lines of other rows cross this part."""
        return GRID * (self.gap_lines[row, after] + 1) if self.gap_lines[row, after] else 0

    def _placed(self) -> dict[str, int]:
        """The left edges after some sweeps over the rows.

        Each sweep moves the boxes a little nearer to their neighbours.
        """
        beside: dict[str, list[str]] = defaultdict(list)
        at = self.combs.at
        for edge in self.chart.edges:
            if at[edge.a][0] != at[edge.b][0]:
                beside[edge.a].append(edge.b)
                beside[edge.b].append(edge.a)
        centres: dict[str, float] = {}
        for number, row in enumerate(self.chart.rows):
            x, found = 0.0, {}
            for column, box in enumerate(row):
                x += self.gap(number, column) if column else 0
                found[box.key] = x + self.widths[box.key] / 2
                x += self.widths[box.key]
            centres |= {key: centre - x / 2 for key, centre in found.items()}
        fixed = self._column_centres()
        numbers = range(len(self.chart.rows))
        for sweep in range(_SWEEPS):
            for number in numbers if sweep % 2 else reversed(numbers):
                row = self.chart.rows[number]
                wanted = [
                    fixed[box.column]
                    if box.column is not None
                    else sum(centres[key] for key in beside[box.key]) / len(beside[box.key])
                    if beside[box.key]
                    else centres[box.key]
                    for box in row
                ]
                centres |= self._apart(number, row, wanted)
        centres |= self._within_columns(centres)
        return {key: _snapped(centre - self.widths[key] / 2) for key, centre in centres.items()}

    def _within_columns(self, centres: dict[str, float]) -> dict[str, float]:
        """The centres of rows that stick out on one side of the rows with columns, and would fit between their ends."""

        def ends(row: Sequence[Box]) -> tuple[float, float]:
            first, last = row[0].key, row[-1].key
            return centres[first] - self.widths[first] / 2, centres[last] + self.widths[last] / 2

        aligned = [ends(row) for row in self.chart.rows if any(box.column is not None for box in row)]
        low, high = min((low for low, _ in aligned), default=-inf), max((high for _, high in aligned), default=inf)
        found: dict[str, float] = {}
        for row in self.chart.rows:
            left, right = ends(row)
            if right - left <= high - low:
                move = max(low - left, 0) + min(high - right, 0)
                found |= {box.key: centres[box.key] + move for box in row}
        return found

    def _column_centres(self) -> dict[float | None, float]:
        """The centre of each column. All columns are as far apart as the two that need most room."""
        pitch, found = 0.0, set[float]()
        for number, row in enumerate(self.chart.rows):
            x, last = 0.0, (0.0, 0.0)
            for at, box in enumerate(row):
                x += (self.gap(number, at) + self.widths[row[at - 1].key] / 2 if at else 0) + self.widths[box.key] / 2
                if box.column is not None:
                    if any(each.column is not None for each in row[:at]):
                        pitch = max(pitch, (x - last[1]) / (box.column - last[0]))
                    last = box.column, x
                    found.add(box.column)
        pitch = GRID * ceil(pitch / GRID)
        middle = _snapped(pitch * (min(found) + max(found)) / 2) if found else 0
        return {column: pitch * column - middle for column in found}

    def _apart(self, number: int, row: Sequence[Box], wanted: Sequence[float]) -> dict[str, float]:
        """Centres as near to *wanted*, in the sum of squares, as the widths allow.

        The method is the pool-adjacent-violators algorithm of isotonic regression. Boxes of a column stay where they
        are wanted.
        """
        offsets, offset = [], 0.0
        for column, box in enumerate(row):
            if column:
                offset += (self.widths[row[column - 1].key] + self.widths[box.key]) / 2 + self.gap(number, column)
            offsets.append(offset)
        pools: list[tuple[float, float, int]] = []
        for box, want, offset in zip(row, wanted, offsets, strict=True):
            pools.append((want - offset, 1.0 if box.column is None else _FIXED, 1))
            while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                (b, n, many), (a, m, more) = pools.pop(), pools.pop()
                pools.append(((a * m + b * n) / (m + n), m + n, many + more))
        starts = [start for start, _, size in pools for _ in range(size)]
        return {box.key: start + offset for box, start, offset in zip(row, starts, offsets, strict=True)}

    def _choose_gaps(self) -> None:
        """Sends every comb that crosses a row through a gap near the middle of its ends and near its last gap."""
        for comb, gaps in zip(self.combs.combs, self.gaps, strict=True):
            centres = [self.lefts[key] + self.widths[key] / 2 for key in (comb.hub, *comb.leaves)]
            middle, here = sum(centres) / len(centres), centres[0]
            common = self._common_gaps(comb.crossed, middle, here)
            for row in comb.crossed if comb.down else reversed(comb.crossed):
                boxes = self.chart.rows[row]
                edges = [self.lefts[box.key] - GAP / 2 for box in boxes]
                edges.append(self.lefts[boxes[-1].key] + self.widths[boxes[-1].key] + GAP / 2)
                costs = [abs(x - middle) + abs(x - here) / 2 + self._busy(row, gap) for gap, x in enumerate(edges)]
                gap = common.get(row, costs.index(min(costs)))
                here = edges[gap]
                gaps[row] = gap, self.gap_lines[row, gap]
                self.gap_lines[row, gap] += 1

    def _common_gaps(self, rows: Sequence[int], middle: float, here: float) -> dict[int, int]:
        """The gap of each of *rows* that a straight line passes; of several the one nearest to *middle* and *here*.

        Empty where a line has to bend, and where it crosses one row.
        """
        found: list[tuple[float, float, dict[int, int]]] = [(-inf, inf, {})] if len(rows) > 1 else []
        for row in rows:
            found = [
                (max(low, left), min(high, right), {**gaps, row: gap})
                for low, high, gaps in found
                for gap, (left, right) in enumerate(self.free(row))
                if min(high, right) - max(low, left) >= 2 * GAP
            ]

        def cost(each: tuple[float, float, dict[int, int]]) -> float:
            low, high, gaps = each
            x = min(max(middle, low + GAP), high - GAP)
            return abs(x - middle) + abs(x - here) / 2 + sum(self._busy(row, gap) for row, gap in gaps.items())

        return min(found, key=cost)[2] if found else {}

    def free(self, row: int) -> list[tuple[float, float]]:
        """The ends of each gap of *row* from left to right, of which the first and the last are open."""
        boxes = self.chart.rows[row]
        lefts = [self.lefts[box.key] for box in boxes]
        rights = [left + self.widths[box.key] for left, box in zip(lefts, boxes, strict=True)]
        return list(zip([-inf, *rights], [*lefts, inf], strict=True))

    def label_spans(self, row: int, after: int) -> list[tuple[float, float]]:
        """The ends of the labels of straight lines in the gap in *row* before box *after*."""
        boxes = self.chart.rows[row]
        if not 0 < after < len(boxes):
            return []
        left, right = self.free(row)[after]
        centre = (left + right - self.lines_width(row, after)) / 2
        texts = (
            each
            for edge in self.combs.straight.get((boxes[after - 1].key, boxes[after].key), ())
            for each in label_of([edge])
        )
        return [(centre - text_width(text, LABEL) / 2, centre + text_width(text, LABEL) / 2) for text in texts]

    def _busy(self, row: int, gap: int) -> float:
        """The cost of a gap in pixels of detour: a line through the gap crosses its straight lines."""
        boxes = self.chart.rows[row]
        between = (boxes[gap - 1].key, boxes[gap].key) if 0 < gap < len(boxes) else ("", "")
        return 60.0 * len(self.combs.straight.get(between, ()))

    def gap_x(self, row: int, gap: tuple[int, int]) -> int:
        """The x of line number `gap[1]` in the gap before box `gap[0]` of *row*.

        Lines of neighbouring rows do not meet.
        """
        after, number = gap
        boxes = self.chart.rows[row]
        odd = GRID // 2 * (row % 2)
        if after < len(boxes):
            return self.lefts[boxes[after].key] - GRID * number - 18 - odd
        return self.lefts[boxes[-1].key] + self.widths[boxes[-1].key] + GRID * number + 30 - odd

    def ends(self) -> tuple[int, int]:
        """The leftmost and the rightmost pixel of boxes and of lines in gaps."""
        low = min(self.lefts.values(), default=0)
        high = max((left + self.widths[key] for key, left in self.lefts.items()), default=0)
        for gaps in self.gaps:
            xs = [self.gap_x(row, gap) for row, gap in gaps.items()]
            low, high = min([low, *(x - 12 for x in xs)]), max([high, *(x + 12 for x in xs)])
        return low, high
