"""Cells: the distinct rectangles that the operands of a window name."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError, connected
from kb_dataexec.log.columns import RECTANGLE_COLUMNS, Columns

COLUMNS: Final = (*RECTANGLE_COLUMNS, "dtype")
_TABLE_BITS: Final = 18
"""log2 of the slots of the hash table. Source: measured. 2^16 to 2^20 slots take as long for the 3 thousand rectangles
of a large GEMM."""
_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)


class Cells:
    """The distinct (rectangle, dtype) pairs of the operands *operands*; *changed* marks what is written or released.

    `index`     the cell of each operand
    `columns`   owner, offset, rows, row_nbytes, stride and dtype code of each cell
    `shape_id`  a number for each cell, equal for cells of equal rows, row_nbytes and dtype
    `run`       a number for each cell, equal for cells of one dtype that are the same run of bytes in other shapes
    `changed`   whether a cell is written or released
    `group`     a label for each cell: a change of a cell can only affect cells of the same group
    """

    def __init__(self, operands: Columns, changed: Array) -> None:
        columns = [operands[name].astype(np.int64, copy=False) for name in COLUMNS]
        columns[4] = np.where(columns[2] == 1, columns[3], columns[4])
        first, self.index = _distinct(columns)
        self.columns: list[Array] = [column[first] for column in columns]
        self.shape_id = _shape_ids(self.columns)
        self.run = _runs(self.columns)
        self.changed = np.zeros(len(first), np.bool_)
        self.changed[self.index[changed]] = True
        self.group = connected(self.columns, self.changed)

    def __len__(self) -> int:
        return len(self.group)

    def cover(self, above: Array, below: Array) -> Array:
        """Whether cell above[i] is one run of bytes that holds all bytes of cell below[i], a cell of the same group."""
        _, offset, rows, row_nbytes, stride, _ = self.columns
        end = offset + (rows - 1) * stride + row_nbytes
        starts = (stride[above] == row_nbytes[above]) & (offset[above] <= offset[below])
        covered: Array = starts & (end[below] <= end[above])
        return covered

    def tuples(self) -> list[tuple[int, int, int, int, int, int]]:
        """Every cell as (owner, offset, rows, row_nbytes, stride, dtype code)."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))


def _distinct(columns: list[Array]) -> tuple[Array, Array]:
    """Returns (one row of each distinct combination, the combination that each row is).

    Rows are compared by a hash. Raises IrregularError in the rare case that two combinations have one hash.
    """
    key = np.empty(len(columns[0]), np.uint64)

    def mix(chunk: slice) -> None:
        mixed = columns[0][chunk].astype(np.uint64)
        for column, factor in zip(columns[1:], _FACTORS, strict=True):
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(factor)
            mixed += column[chunk].view(np.uint64)
        key[chunk] = mixed

    def compare(chunk: slice) -> None:
        if any((column[chunk] != column[same[chunk]]).any() for column in columns):
            raise IrregularError("two rectangles with one hash")

    in_chunks(mix, len(key))
    same = _representatives(key)
    in_chunks(compare, len(key))
    is_first = same == np.arange(len(same))
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[same]


def _representatives(key: Array) -> Array:
    """For each hash of *key*, the place of an equal hash; equal hashes get the same place.

    A table finds the places without sorting. Only hashes that share their slot with another hash are sorted.
    """
    slot = np.empty(len(key), np.int64)
    same = np.empty(len(key), np.int64)
    differs = np.empty(len(key), np.bool_)
    table = np.zeros(1 << _TABLE_BITS, np.int64)

    def choose(chunk: slice) -> None:
        slot[chunk] = (key[chunk] * np.uint64(_FACTORS[0])) >> np.uint64(64 - _TABLE_BITS)

    def look_up(chunk: slice) -> None:
        same[chunk] = table[slot[chunk]]
        differs[chunk] = key[same[chunk]] != key[chunk]

    in_chunks(choose, len(key))
    table[slot] = np.arange(len(key))
    in_chunks(look_up, len(key))
    others = np.flatnonzero(differs)
    _, first, index = np.unique(key[others], return_index=True, return_inverse=True)
    same[others] = others[first][index.reshape(-1)]
    return same


def _runs(columns: list[Array]) -> Array:
    """A number for each cell: the first cell that is one run of the same bytes, or the cell itself."""
    owner, offset, rows, row_nbytes, stride, dtype = columns
    packed = np.flatnonzero((stride == row_nbytes) & (rows > 0))
    run = np.arange(len(owner))
    if not len(packed):
        return run
    keys = np.stack([each[packed] for each in (owner, offset, rows * row_nbytes, dtype)])
    order = np.lexsort(keys)
    opens = np.append(True, (np.diff(keys[:, order]) != 0).any(axis=0))
    first = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
    run[packed[order]] = packed[first]
    return run


def _shape_ids(columns: list[Array]) -> Array:
    number = columns[5]
    for column in (columns[2], columns[3]):
        _, rank = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (int(rank.max(initial=0)) + 1) + rank, return_inverse=True)
    return number
