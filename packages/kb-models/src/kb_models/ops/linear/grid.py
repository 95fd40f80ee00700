"""Grid: how the PEs of a cube share the result of a product, and the block of each PE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_models.layout import Mesh, cut


class Grid(NamedTuple):
    """The blocks of a result of the PEs of a cube: `down` along the rows and `along` the columns."""

    down: int
    along: int


class Block(NamedTuple):
    """The block of a result that a PE computes: its cube, its panel of columns, and the rows and columns of its cube's
    part."""

    cube: int
    panel: int
    rows: slice
    cols: slice


def grid_for(rows: int, cols: Sequence[int], mesh: Mesh) -> Grid:
    """The grid for *rows* rows and, in each cube, *cols* columns: the largest block has the least blocks of the MAC
    array, then the fewest elements of its factors. No more columns of the grid than a cube has columns.

    Source: an output-stationary array takes as long for a few rows and columns as for all of its own; each PE of a cube
    reads the factors of its block from the HBM that all PEs of the cube share.
    """
    pes, (high, wide) = mesh.pes_per_cube, mesh.array

    def cost(grid: Grid) -> tuple[int, int, int]:
        m, n = -(-rows // grid.down), -(-max(cols) // grid.along)
        return -(-m // high) * -(-n // wide), m + n, grid.down

    return min((Grid(down, min(pes // down, *cols)) for down in range(1, min(pes, rows) + 1)), key=cost)


def blocks_of(mesh: Mesh, grid: Grid, rows: Sequence[int], cols: Sequence[int]) -> list[Block | None]:
    """The block of each program of a launch on `mesh.pes`, or None, for the *rows* and *cols* of each cube."""
    found: list[Block | None] = []
    for cube in mesh.cubes:
        for place in range(mesh.pes_per_cube):
            i, j = divmod(place, grid.along)
            down = cut(rows[cube.number], grid.down, min(i, grid.down - 1))
            if i >= grid.down or down[0] == down[1]:
                found.append(None)
                continue
            panel = cube.number * grid.along + j
            found.append(Block(cube.number, panel, slice(*down), slice(*cut(cols[cube.number], grid.along, j))))
    return found
