"""Tiles joined into panels: what adjoins in memory is read at once, and a full grid of tiles is one product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast, cast_into, convert, numpy_dtype
from kb_dataexec.arrays.scratch import Scratch
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.memory.store import MemoryStore


class Tile(NamedTuple):
    """A rectangle of elements in memory; `dtype` is the code that logs use."""

    owner: int
    offset: int
    rows: int
    row_nbytes: int
    stride: int
    dtype: int

    @property
    def cols(self) -> int:
        """Elements a row."""
        return self.row_nbytes // DTYPES[self.dtype].nbytes

    def read(self, store: MemoryStore) -> Array:
        """Its value as (rows, cols). Raises StoreError as `MemoryStore.read` does."""
        return store.read(*self[:5], DTYPES[self.dtype])


class Panel:
    """One side of an accumulation: the tiles it goes through along k. Compared by identity.

    `turned` says that they are stored transposed; then, or else for B, k runs downwards (`k_is_down`).
    """

    __slots__ = ("k_is_down", "tiles", "turned")

    def __init__(self, tiles: tuple[Tile, ...], is_b: bool, turned: bool) -> None:
        self.tiles = tiles
        self.turned = turned
        self.k_is_down = is_b != turned

    @property
    def depth(self) -> int:
        """Elements along k."""
        return sum(tile.rows if self.k_is_down else tile.cols for tile in self.tiles)

    @property
    def breadth(self) -> int:
        """Elements across k: rows of A, columns of B."""
        return self.tiles[0].cols if self.k_is_down else self.tiles[0].rows


def matrix(store: MemoryStore, panels: Sequence[Panel], scratch: Scratch) -> Array:
    """A panels stacked, or B panels side by side, oriented for A @ B; floats as f32, integers as they are.

    The panels are stored one way and are cut alike along k. The matrix is a view of the store or lies in *scratch*.
    """
    tiles = [panel.tiles for panel in panels]
    grid = list(zip(*tiles, strict=True)) if panels[0].k_is_down else tiles
    found = _gather(store, grid, _working_dtype(tiles), scratch)
    return found.T if panels[0].turned else found


def _working_dtype(panels: Sequence[Sequence[Tile]]) -> np.dtype[Any]:
    """f32 for floats, for integers the type that all share, else i64."""
    kinds = {DTYPES[tile.dtype] for tiles in panels for tile in tiles}
    if any(kind.is_float for kind in kinds):
        return np.dtype(np.float32)
    return numpy_dtype(kinds.pop()) if len(kinds) == 1 else np.dtype(np.int64)


def beside(tiles: Sequence[Tile]) -> Tile | None:
    """The tile that *tiles* make, each to the right of the one before, or None when they do not adjoin in memory."""
    first = tiles[0]
    end = first.offset
    for tile in tiles:
        alike = tile.owner == first.owner and tile.rows == first.rows and tile.dtype == first.dtype
        if not alike or tile.offset != end or (tile.rows > 1 and tile.stride != first.stride):
            return None
        end += tile.row_nbytes
    nbytes = end - first.offset
    return first._replace(row_nbytes=nbytes, stride=nbytes if first.rows == 1 else first.stride)


def below(tiles: Sequence[Tile]) -> Tile | None:
    """The tile that *tiles* make, each under the one before, or None when they do not adjoin in memory."""
    if len(tiles) == 1:
        return tiles[0]
    first = tiles[0]
    stride = first.stride if first.rows > 1 else tiles[1].offset - first.offset
    end, rows = first.offset, 0
    if stride <= 0:
        return None
    for tile in tiles:
        alike = tile.owner == first.owner and tile.row_nbytes == first.row_nbytes and tile.dtype == first.dtype
        if not alike or tile.offset != end or (tile.rows > 1 and tile.stride != stride):
            return None
        end += tile.rows * stride
        rows += tile.rows
    return first._replace(rows=rows, stride=stride)


def cast_along(out: Array, value: Array, casts: Sequence[int]) -> None:
    """Fill *out* with *value* cast to one element type (code) after the other, the last of which is its own."""
    for code in casts[:-1]:
        value = cast(value, DTYPES[code])
    if casts:
        cast_into(out, value, DTYPES[casts[-1]])
    else:
        out[...] = value


def dtype_after(casts: Sequence[int], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What `cast_along` makes of *dtype*."""
    return numpy_dtype(DTYPES[casts[-1]]) if casts else dtype


def join(grid: Sequence[Sequence[Tile]]) -> Tile | None:
    """The tile that a grid (rows of tiles) makes, or None when it does not adjoin in memory."""
    lines = [beside(line) for line in grid]
    whole = [line for line in lines if line is not None]
    return below(whole) if len(whole) == len(lines) else None


def _gather(store: MemoryStore, grid: Sequence[Sequence[Tile]], dtype: np.dtype[Any], scratch: Scratch) -> Array:
    """The values of a grid of tiles (rows of tiles) as one (rows, cols) array of *dtype*, cast on the way."""
    whole = join(grid)
    if whole is not None:
        return convert(whole.read(store), dtype, scratch.empty)
    out = scratch.empty((sum(line[0].rows for line in grid), sum(tile.cols for tile in grid[0])), dtype)
    row = 0
    for line in grid:
        col = 0
        joined = beside(line)
        for tile in line if joined is None else (joined,):
            out[row : row + tile.rows, col : col + tile.cols] = tile.read(store)
            col += tile.cols
        row += line[0].rows
    return out
