"""A window's accumulations, and how they line up in grids that are one matrix product each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.execute.fused.dataflow import Gemms
from kb_dataexec.execute.fused.panels import Panel, Tile

_PANEL_NBYTES: Final = 1 << 28


class Output(NamedTuple):
    """A live value: where it lies, and the element types (codes) it is cast to on its way there."""

    tile: Tile
    casts: tuple[int, ...]


class Chain(NamedTuple):
    """An accumulation: its last GEMM's number, its A and B panels, what it starts from, and where its result goes."""

    number: int
    a: Panel
    b: Panel
    initial: Tile | None
    outputs: list[Output]


Grid = list[list[Chain]]
"""Chains whose panels line up: those of a row share their A panel, those of a column their B panel."""


def accumulations(gemms: Gemms, tiles: list[Tile], outputs: dict[int, list[Output]]) -> Iterator[Chain]:
    """The chains whose results *outputs* wants, by the number of the last GEMM. `tiles[i]` is cell i."""
    members = np.argsort(gemms.chain, kind="stable")
    edges = np.flatnonzero(np.diff(gemms.chain[members])) + 1
    panels: dict[tuple[bytes, bool, bool], Panel] = {}

    def panel(cells: Array, is_b: bool, turned: bool) -> Panel:
        key = (cells.tobytes(), is_b, turned)
        if key not in panels:
            panels[key] = Panel(tuple(tiles[cell] for cell in cells.tolist()), is_b, turned)
        return panels[key]

    for mine in np.split(members, edges):
        wanted = outputs.get(int(mine[-1])) if len(mine) else None
        if wanted is None:
            continue
        turned, start = int(gemms.transposed[mine[0]]), int(gemms.initial[mine[0]])
        a = panel(gemms.a[mine], False, bool(turned & 1))
        b = panel(gemms.b[mine], True, bool(turned & 2))
        yield Chain(int(mine[-1]), a, b, None if start < 0 else tiles[start], wanted)


def grids(chains: Iterator[Chain]) -> Iterator[Grid]:
    """Chains with one A panel, and B stored one way, form a line; lines with the same B panels form a grid.

    Large grids come in parts, so that the panels and the result of each stay within a bound.
    """
    lines: dict[tuple[Panel, bool], list[Chain]] = {}
    for chain in chains:
        lines.setdefault((chain.a, chain.b.turned), []).append(chain)
    found: dict[tuple[bool | Panel, ...], Grid] = {}
    for line in lines.values():
        found.setdefault((line[0].a.turned, *(chain.b for chain in line)), []).append(line)
    for grid in found.values():
        yield from _parts_of(grid)


def _parts_of(grid: Grid) -> Iterator[Grid]:
    """A grid in parts whose panels and result take at most about _PANEL_NBYTES each, as f32."""
    depth = grid[0][0].a.depth
    widths = [chain.b.breadth for chain in grid[0]]
    heights = [line[0].a.breadth for line in grid]
    for low, high in runs(widths, _most_beside(depth)):
        for top, bottom in runs(heights, _most_beside(max(depth, sum(widths[low:high])))):
            yield [line[low:high] for line in grid[top:bottom]]


def _most_beside(length: int) -> int:
    """How many rows of *length* elements take _PANEL_NBYTES as f32."""
    return _PANEL_NBYTES // 4 // max(length, 1)


def runs(lengths: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Runs (first, last + 1) of *lengths* whose sum is at most *limit*; one length at least."""
    begin = total = 0
    for index, length in enumerate(lengths):
        if index > begin and total + length > limit:
            yield begin, index
            begin, total = index, 0
        total += length
    yield begin, len(lengths)
