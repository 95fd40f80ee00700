"""grids: arranges accumulations in grids. Each grid is one matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.execute.fused.products.gemm_chains import GemmChains
from kb_dataexec.execute.fused.products.panels import FactorPanel, PanelPlace
from kb_dataexec.execute.fused.products.stored_matrix import StoredMatrix
from kb_dataexec.memory.store import MemoryStore

_PANEL_NBYTES: Final = 1 << 28
"""The most bytes of the factors and of the result of a grid, each as f32."""


class Destination(NamedTuple):
    """The destination of a result, and the types (codes) that it is cast to on the way, in order."""

    matrix: StoredMatrix
    casts: tuple[int, ...]


class Accumulation(NamedTuple):
    """Equal chains of GEMMs: the numbers of their last GEMMs, their panels, the matrix that they start from, and their
    destinations.
    """

    numbers: list[int]
    a: FactorPanel
    b: FactorPanel
    initial: StoredMatrix | None
    destinations: list[Destination]


ProductGrid = list[list[Accumulation]]
"""Accumulations in rows and columns. A row shares its A panel, and a column shares its B panel."""


def accumulations(
    chains: GemmChains, matrices: list[StoredMatrix], destinations: dict[int, list[Destination]], store: MemoryStore
) -> Iterator[Accumulation]:
    """Yields the accumulations with a result in *destinations*, which are by the number of the last GEMM.

    *matrices*[i] is cell i of *store*. Panels that replicas of one array hold are one panel.
    """
    members = np.argsort(chains.chain, kind="stable")
    edges = np.flatnonzero(np.diff(chains.chain[members])) + 1
    panels: dict[tuple[bytes, bool, bool], FactorPanel] = {}
    placed: dict[PanelPlace, FactorPanel] = {}

    def panel(cells: Array, is_b: bool, turned: bool) -> FactorPanel:
        key = (cells.tobytes(), is_b, turned)
        if key not in panels:
            found = FactorPanel(tuple(matrices[cell] for cell in cells.tolist()), is_b, turned)
            place = found.place(store)
            panels[key] = found if place is None else placed.setdefault(place, found)
        return panels[key]

    for mine in np.split(members, edges):
        wanted = destinations.get(int(mine[-1])) if len(mine) else None
        if wanted is None:
            continue
        turned, start = int(chains.transposed[mine[0]]), int(chains.initial[mine[0]])
        a = panel(chains.a[mine], False, bool(turned & 1))
        b = panel(chains.b[mine], True, bool(turned & 2))
        yield Accumulation([int(mine[-1])], a, b, None if start < 0 else matrices[start], [*wanted])


def grids(found: Iterator[Accumulation]) -> Iterator[ProductGrid]:
    """Arranges the accumulations *found* in grids.

    Accumulations with one A panel and B stored one way form a line. Lines with the same B panels form a grid. A large
    grid is cut into parts, which bounds the memory for its factors and its result.

    A product that many PEs compute equally is one accumulation with the destinations of all. Such products with
    initial matrices are in grids of one form each. So they are equal to the last bit: the rounding of a BLAS library
    may depend on the place of a column in the product.
    """
    lines: dict[tuple[FactorPanel, bool, int], list[Accumulation]] = {}
    order: dict[FactorPanel, int] = {}
    once: dict[tuple[FactorPanel, FactorPanel], Accumulation] = {}
    n_started: dict[tuple[FactorPanel, FactorPanel], int] = {}
    for each in found:
        pair, number = (each.a, each.b), 0
        if each.initial is not None:
            number = n_started[pair] = n_started.get(pair, 0) + 1
        elif once.setdefault(pair, each) is not each:
            once[pair].numbers.extend(each.numbers)
            once[pair].destinations.extend(each.destinations)
            continue
        order.setdefault(each.b, len(order))
        lines.setdefault((each.a, each.b.turned, number), []).append(each)
    together: dict[tuple[int | FactorPanel, ...], ProductGrid] = {}
    for (a, _, number), line in lines.items():
        line.sort(key=lambda each: order[each.b])
        together.setdefault((number, a.turned, *(each.b for each in line)), []).append(line)
    for grid in together.values():
        yield from _parts_of(grid)


def _parts_of(grid: ProductGrid) -> Iterator[ProductGrid]:
    """Parts of *grid* whose factors and results take at most about _PANEL_NBYTES each, as f32."""
    depth = grid[0][0].a.depth
    widths = [each.b.breadth for each in grid[0]]
    heights = [line[0].a.breadth for line in grid]
    for left, right in runs(widths, _most_beside(depth)):
        for top, bottom in runs(heights, _most_beside(max(depth, sum(widths[left:right])))):
            yield [line[left:right] for line in grid[top:bottom]]


def _most_beside(length: int) -> int:
    """The number of rows of *length* elements that take _PANEL_NBYTES as f32."""
    return _PANEL_NBYTES // 4 // max(length, 1)


def runs(lengths: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Runs (first, last + 1) of *lengths* with a sum of at most *limit*. A run has at least one length."""
    begin = total = 0
    for index, length in enumerate(lengths):
        if index > begin and total + length > limit:
            yield begin, index
            begin, total = index, 0
        total += length
    yield begin, len(lengths)
