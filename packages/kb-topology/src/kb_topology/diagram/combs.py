"""Combs: edges that are no straight lines between neighbours in a row, with a hub and a tooth for each other end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kb_topology.diagram.chart import Chart, Edge, percents

Side = tuple[str, bool]
"""(key of a box, False for its top or True for its bottom)."""


class Comb(Struct):
    """Edges of one label between *hub* and boxes of row *leaf_row*."""

    hub: str
    hub_row: int
    leaf_row: int
    edges: list[Edge]
    leaves: list[str]

    @property
    def down(self) -> bool:
        """Whether the comb leaves its hub at the bottom."""
        return self.hub_row <= self.leaf_row

    @property
    def at_leaf_bottom(self) -> bool:
        """Whether the teeth end at the bottoms of boxes."""
        return self.hub_row >= self.leaf_row

    @property
    def crossed(self) -> range:
        """The rows between hub and leaves."""
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

    @property
    def label(self) -> tuple[str, ...]:
        """The label of the edges, with their utilization."""
        return label_of(self.edges)


def label_of(edges: Sequence[Edge]) -> tuple[str, ...]:
    """The label of equal *edges*: how many links they are, what each of them has, and their utilization."""
    first = edges[0]
    if first.says == "nothing":
        return ()
    heat = percents(tuple(edge.heat for edge in edges if edge.heat is not None))
    if first.says == "heat" or not first.label:
        return heat
    links = sum(edge.count for edge in edges)
    bandwidth, *length = first.label
    return (bandwidth if links == 1 else f"{links} x {bandwidth}", *length, *heat)


class Combs:
    """The edges of *chart*, in two groups: straight edges, from left to right, and combs of all other edges."""

    def __init__(self, chart: Chart) -> None:
        self.at = {box.key: (r, c) for r, row in enumerate(chart.rows) for c, box in enumerate(row)}
        self.straight: dict[tuple[str, str], list[Edge]] = defaultdict(list)
        rest = []
        for edge in chart.edges:
            if self._neighbours(edge):
                a, b = sorted((edge.a, edge.b), key=lambda key: self.at[key])
                self.straight[a, b].append(edge)
            else:
                rest.append(edge)
        self.combs = _combs(rest, self.at)
        self.ports: dict[Side, list[int]] = defaultdict(list)
        for number, comb in enumerate(self.combs):
            self.ports[comb.hub, comb.down].append(number)
            for leaf in comb.leaves:
                self.ports[leaf, comb.at_leaf_bottom].append(number)

    def _neighbours(self, edge: Edge) -> bool:
        (row_a, col_a), (row_b, col_b) = self.at[edge.a], self.at[edge.b]
        return row_a == row_b and abs(col_a - col_b) == 1


def _combs(edges: Sequence[Edge], at: Mapping[str, tuple[int, int]]) -> list[Comb]:
    degree = Counter((key, edge.label, edge.line) for edge in edges for key in (edge.a, edge.b))
    combs: dict[tuple[object, ...], Comb] = {}
    key: tuple[object, ...]
    for edge in edges:
        a_is_hub = degree[edge.a, edge.label, edge.line] >= degree[edge.b, edge.label, edge.line]
        hub, leaf = (edge.a, edge.b) if a_is_hub else (edge.b, edge.a)
        outward = edge.arrows and a_is_hub
        alike = edge.label, edge.count, edge.says, edge.line, edge.arrows, edge.one_way
        key = (hub, at[leaf][0], alike, outward)
        if key in combs and leaf not in combs[key].leaves:
            combs[key].edges.append(edge)
            combs[key].leaves.append(leaf)
        else:
            while key in combs:
                key = (*key, None)
            combs[key] = Comb(hub, at[hub][0], at[leaf][0], [edge], [leaf])
    return list(combs.values())
