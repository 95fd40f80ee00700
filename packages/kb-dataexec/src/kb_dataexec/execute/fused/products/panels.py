"""FactorPanel: the tiles of one factor that an accumulation goes through along k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array, numpy_dtype
from kb_dataexec.arrays.scratch import Scratch
from kb_dataexec.execute.fused.products.stored_matrix import StoredMatrix, gather, join
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.memory.store import MemoryStore


class FactorPanel:
    """The tiles of A, or of B, that one accumulation goes through. Two panels are equal only if they are one object.

    `turned` is True if the tiles are stored transposed. `k_is_down` is True if k runs along the rows of the stored
    tiles, as for B and for a transposed A.
    """

    __slots__ = ("k_is_down", "tiles", "turned")

    def __init__(self, tiles: tuple[StoredMatrix, ...], is_b: bool, turned: bool) -> None:
        self.tiles = tiles
        self.turned = turned
        self.k_is_down = is_b != turned

    @property
    def depth(self) -> int:
        """The number of elements along k."""
        return sum(tile.rows if self.k_is_down else tile.cols for tile in self.tiles)

    @property
    def breadth(self) -> int:
        """The number of elements across k: rows of A, or columns of B."""
        return self.tiles[0].cols if self.k_is_down else self.tiles[0].rows

    def place(self, store: MemoryStore) -> PanelPlace | None:
        """Returns a key that is equal for panels that read the same bytes of a shared array; None for a panel in
        pieces.
        """
        whole = join(_lines([self.tiles], self.k_is_down))
        place = None if whole is None else store.place(*whole[:5])
        if whole is None or place is None:
            return None
        lengths = tuple(tile.rows if self.k_is_down else tile.cols for tile in self.tiles)
        return PanelPlace(place, *whole[2:], self.k_is_down, self.turned, lengths)


class PanelPlace(NamedTuple):
    """The position of a panel in an array that memories share, its shape, type, and lengths of its tiles along k."""

    place: int
    rows: int
    row_nbytes: int
    stride: int
    dtype: int
    k_is_down: bool
    turned: bool
    lengths: tuple[int, ...]


def _lines(panels: Sequence[Sequence[StoredMatrix]], k_is_down: bool) -> list[Sequence[StoredMatrix]]:
    """The tiles of *panels* as rows of matrices."""
    return list(zip(*panels, strict=True)) if k_is_down else list(panels)


def factor_of(store: MemoryStore, panels: Sequence[FactorPanel], scratch: Scratch) -> Array:
    """Returns A panels one below the other, or B panels side by side, oriented for A @ B.

    All *panels* are stored the same way and are cut in the same places along k. Floats come as f32, integers as they
    are. The result is a view of *store*, or lies in *scratch*.
    """
    tiles = [panel.tiles for panel in panels]
    found = gather(store, _lines(tiles, panels[0].k_is_down), _working_dtype(tiles), scratch)
    return found.T if panels[0].turned else found


def _working_dtype(panels: Sequence[Sequence[StoredMatrix]]) -> np.dtype[Any]:
    """f32 for floats. For integers, the type of all tiles if there is one, else i64."""
    kinds = {DTYPES[tile.dtype] for tiles in panels for tile in tiles}
    if any(kind.is_float for kind in kinds):
        return np.dtype(np.float32)
    return numpy_dtype(kinds.pop()) if len(kinds) == 1 else np.dtype(np.int64)
