"""Ports: the places where lines meet the tops and bottoms of boxes, clear of all other lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from kb_topology.diagram.columns import GRID, Columns, cell_of
from kb_topology.diagram.combs import Combs, Side

CLEAR, EDGE = 6, 10
"""Pixels between upright lines of two combs, and from a line to the corner of its box."""


class Ports:
    """The x of every end of a comb.

    Bottoms have their ports at multiples of GRID, tops halfway between, lines in gaps at quarters. So no two upright
    lines of a channel are nearer than CLEAR. From there, the ports of a side move together to straighten a line, where
    the distances allow the move.
    """

    def __init__(self, combs: Combs, columns: Columns) -> None:
        self.combs, self.columns = combs, columns
        self.at: dict[Side, dict[int, float]] = {}
        self.gap_at = [{row: float(columns.gap_x(row, gap)) for row, gap in gaps.items()} for gaps in self.columns.gaps]
        """The x of each comb in each row that the comb crosses."""
        for side in sorted(combs.ports, key=lambda each: (combs.at[each[0]], each[1])):
            numbers = sorted(combs.ports[side], key=lambda number: (self._aim(side[0], number), number))
            self.at[side] = dict.fromkeys(numbers, 0.0)
            self.at[side] = dict(zip(numbers, self._lattice(side), strict=True))
        for side in self.at:
            self._centre_ports(side)
        for side in self.at:
            self._straighten(side)
        for number in range(len(combs.combs)):
            self._straighten_gaps(number)
        for side in self.at:
            self._straighten(side)

    def _centre(self, key: str) -> float:
        return self.columns.lefts[key] + self.columns.widths[key] / 2

    def _aim(self, key: str, number: int) -> float:
        """The x towards which comb *number* leaves the box *key*."""
        comb = self.combs.combs[number]
        if gaps := self.gap_at[number]:
            row = self.combs.at[key][0]
            return gaps[min(gaps, key=lambda each: abs(each - row))]
        others = comb.leaves if comb.hub == key else [comb.hub]
        return sum(self._centre(other) for other in others) / len(others)

    def _cells(self, side: Side) -> list[int]:
        combs = [self.combs.combs[number] for number in self.at[side]]
        return [cell_of(comb.label if comb.hub == side[0] else ()) for comb in combs]

    def _lattice(self, side: Side) -> list[float]:
        cells = self._cells(side)
        start = self._ideal(side)
        phase = 0 if side[1] else GRID // 2
        low = self.columns.lefts[side[0]] + EDGE
        start = phase + GRID * round((start - phase) / GRID)
        high = low - EDGE + self.columns.widths[side[0]] - sum(cells)
        while start > high and start - GRID >= low:
            start -= GRID
        while start < low:
            start += GRID
        return [start + sum(cells[:number]) for number in range(len(cells))]

    def _ideal(self, side: Side) -> float:
        """The x of the first port when all stand in the middle."""
        cells = self._cells(side)
        span = sum(cells[:-1])
        return self._centre(side[0]) - span / 2

    def _straighten(self, side: Side) -> None:
        """Moves the ports of *side* together, so that a line is straight."""
        here = self.at[side]
        moves = [there - here[number] for number in here for there in self._partners(side, number)]
        if len(here) > 1:
            moves = [move for move in moves if abs(move) < GRID]
        move = next((move for move in moves if self._fits(side, move)), 0.0)
        self._move(side, move)

    def _centre_ports(self, side: Side) -> None:
        """Moves the ports of *side* together to the middle."""
        move = self._ideal(side) - next(iter(self.at[side].values()))
        if self._fits(side, move):
            self._move(side, move)

    def _move(self, side: Side, move: float) -> None:
        self.at[side] = {number: x + move for number, x in self.at[side].items()}

    def _partners(self, side: Side, number: int) -> Iterator[float]:
        """The x to which comb *number* leads straight from *side*: the x of the gap or of the only other end."""
        comb = self.combs.combs[number]
        if self.gap_at[number]:
            yield self._aim(side[0], number)
        elif comb.hub_row != comb.leaf_row:
            if side[0] != comb.hub:
                yield self.at[comb.hub, comb.down][number]
            elif len(comb.leaves) == 1:
                yield self.at[comb.leaves[0], comb.at_leaf_bottom][number]

    def _fits(self, side: Side, move: float) -> bool:
        left, width = self.columns.lefts[side[0]], self.columns.widths[side[0]]
        xs = [x + move for x in self.at[side].values()]
        if xs[0] < left + EDGE or xs[-1] + max(self._cells(side)[-1] - 12, EDGE) > left + width:
            return False
        others = self._uprights(side)
        return all(abs(x + move - y) >= CLEAR for n, x in self.at[side].items() for m, y in others if m != n)

    def _uprights(self, side: Side) -> list[tuple[int, float]]:
        """Returns (comb, x) of every upright line in the channel that *side* borders, without the lines of *side*
        itself."""
        channel = self.combs.at[side[0]][0] - (not side[1])
        return [line for here, line in self._lines(channel) if here != side]

    def _lines(self, channel: int) -> Iterator[tuple[Side | None, tuple[int, float]]]:
        """Yields (side of the port or None for a gap, (comb, x)) of every upright line in *channel*."""
        for side, ports in self.at.items():
            if self.combs.at[side[0]][0] - (not side[1]) == channel:
                yield from ((side, line) for line in ports.items())
        for number, comb in enumerate(self.combs.combs):
            for row, x in self.gap_at[number].items():
                if row in (channel, channel + 1) and channel in comb.channels:
                    yield None, (number, x)

    def _straighten_gaps(self, number: int) -> None:
        """Moves comb *number* to one x in all rows that the comb crosses, or in the next rows, where there is room."""
        comb, gaps = self.combs.combs[number], self.gap_at[number]
        sides: list[Side] = [(comb.hub, comb.down)]
        sides += [(comb.leaves[0], comb.at_leaf_bottom)] if len(comb.leaves) == 1 else []
        # a port of a side with more ports moves less freely
        ends = [self.at[side][number] for side in sorted(sides, key=lambda side: -len(self.at[side]))]
        fits = [x for x in (*ends, *gaps.values()) if all(self._has_room(row, x, number) for row in gaps)]
        if fits:
            best = min(fits, key=lambda x: sum(x != end for end in ends))
            gaps.update(dict.fromkeys(gaps, best))
            return
        for before, row in pairwise(gaps):
            if self._has_room(row, gaps[before], number):
                gaps[row] = gaps[before]

    def _has_room(self, row: int, x: float, number: int) -> bool:
        """Whether comb *number* can cross *row* at *x*: clear of lines, boxes, labels and margins."""
        lines = (line for channel in (row - 1, row) for _, line in self._lines(channel))
        if any(abs(x - there) < CLEAR for other, there in lines if other != number):
            return False
        gap = self.columns.gaps[number][row][0]
        left, right = self.columns.free(row)[gap]
        low, high = self.columns.ends()
        spans = self.columns.label_spans(row, gap)
        return max(left, low) + EDGE <= x <= min(right, high) - EDGE and not any(a - 4 <= x <= b + 4 for a, b in spans)

    def spans(self, number: int) -> dict[int, list[float]]:
        """The x of the ends and gaps that a comb joins in each of its channels, beginning with the hub's side."""
        comb, gaps = self.combs.combs[number], self.gap_at[number]
        here = self.at[comb.hub, comb.down][number]
        spans: dict[int, list[float]] = defaultdict(list)
        for channel in comb.channels:
            row = channel + 1 if comb.down else channel
            if row in gaps:
                there = gaps[row]
                spans[channel] = [here, there]
                here = there
            else:
                spans[channel] = [here, *(self.at[leaf, comb.at_leaf_bottom][number] for leaf in comb.leaves)]
        return spans
