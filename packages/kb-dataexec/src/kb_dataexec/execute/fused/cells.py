"""Which distinct rectangles (cells) a run of records touches, and which of them share bytes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.log.columns import Columns

COLUMNS: Final = ("owner", "offset", "rows", "row_nbytes", "stride", "dtype")
_PAIR_LIMIT: Final = 1 << 25
_PAIR_BLOCK: Final = 1 << 20
_CONFLICT_LIMIT: Final = 1 << 18
_TABLE_BITS: Final = 18
"""Of a table of rectangles. Source: measured, 2^16 to 2^20 take as long for the 3 thousand of a large GEMM."""
_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)


class IrregularError(Exception):
    """These records are beyond what fusing understands; they have to be executed in another way."""


class Cells:
    """The distinct (rectangle, dtype) pairs among operand rows. `index` maps each row to its cell.

    `group` labels connected cells: two cells of which one is changed (written or released) are in one group when they
    share a byte. Cells in different groups are independent of each other. `shape` numbers the distinct combinations of
    rows, bytes a row and dtype.
    """

    def __init__(self, operands: Columns, changed: Array) -> None:
        columns = [operands[name].astype(np.int64, copy=False) for name in COLUMNS]
        columns[4] = np.where(columns[2] == 1, columns[3], columns[4])
        first, self.index = _distinct(columns)
        self.columns: list[Array] = [column[first] for column in columns]
        self.shape = _shapes(self.columns)
        self.changed = np.zeros(len(first), np.bool_)
        self.changed[self.index[changed]] = True
        self.group = _connected(self.columns, self.changed)

    def __len__(self) -> int:
        return len(self.group)

    def cover(self, above: Array, below: Array) -> Array:
        """Whether each cell of *above* is one run of bytes that holds all of its cell of *below*, of the same group."""
        _, offset, rows, row_nbytes, stride, _ = self.columns
        end = offset + (rows - 1) * stride + row_nbytes
        starts = (stride[above] == row_nbytes[above]) & (offset[above] <= offset[below])
        covered: Array = starts & (end[below] <= end[above])
        return covered

    def tuples(self) -> list[tuple[int, int, int, int, int, int]]:
        """Every cell as (owner, offset, rows, row_nbytes, stride, dtype code)."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))


def _distinct(columns: list[Array]) -> tuple[Array, Array]:
    """(a row of each distinct combination, which combination each row is)."""
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
    """For each of *key*, hashes, the place of one that equals it, the same for all that do: by a table, not by sorting.

    What shares its place in the table with another key is sorted.
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


def _shapes(columns: list[Array]) -> Array:
    number = columns[5]
    for column in (columns[2], columns[3]):
        _, rank = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (int(rank.max(initial=0)) + 1) + rank, return_inverse=True)
    return number


def _connected(columns: list[Array], changed: Array) -> Array:
    """A label for each cell, equal for cells that a chain of conflicts connects."""
    label = np.arange(len(changed))
    parent = label.tolist()

    def root(cell: int) -> int:
        while parent[cell] != cell:
            parent[cell] = parent[parent[cell]]
            cell = parent[cell]
        return cell

    conflicts = _conflicts(columns, changed)
    for a, b in conflicts:
        parent[root(a)] = root(b)
    return np.array([root(cell) for cell in parent]) if conflicts else label


def _conflicts(columns: list[Array], changed: Array) -> list[tuple[int, int]]:
    """All pairs of cells that share a byte and of which one is changed; some that do not, where strides differ."""
    owner, offset, rows, row_nbytes, stride, _ = columns
    whole = (stride == row_nbytes) | (stride == 0)
    run = np.where(stride == row_nbytes, rows * row_nbytes, row_nbytes)
    shape = np.where(whole, 1, rows), run, stride
    low = owner << 32 | offset
    high = low + (shape[0] - 1) * stride + run
    order = np.argsort(low, kind="stable")
    found: list[tuple[int, int]] = []
    for first, others in ((order[changed[order]], order), (order[~changed[order]], order[changed[order]])):
        after = np.searchsorted(low[others], low[first])
        count = np.maximum(np.searchsorted(low[others], high[first]) - after, 0)
        if count.sum() > _PAIR_LIMIT:
            raise IrregularError("too many rectangles side by side")
        ends = np.cumsum(count)
        block = 0
        while block < len(first):
            base = ends[block] - count[block]
            stop = max(block + 1, int(np.searchsorted(ends, base + _PAIR_BLOCK)))
            part = slice(block, stop)
            repeat = count[part]
            a = np.repeat(first[part], repeat)
            nth = np.arange(len(a)) - np.repeat(ends[part] - repeat - base, repeat)
            b = others[nth + np.repeat(after[part], repeat)]
            a, b = a[a != b], b[a != b]
            hit = _share_bytes(low, shape, a, b)
            found += zip(a[hit].tolist(), b[hit].tolist(), strict=True)
            if len(found) > _CONFLICT_LIMIT:
                raise IrregularError("too many rectangles that overlap")
            block = stop
    return found


def _share_bytes(low: Array, shape: tuple[Array, Array, Array], a: Array, b: Array) -> Any:
    """Whether rectangles a[i] and b[i] of one stride share a byte; True where both have rows of different strides.

    Rows i of a and j of b meet when -run_a < t stride - d < run_b, with t = i - j and d = low_b - low_a.
    """
    rows, run, stride = shape
    step = np.where(rows[a] > 1, stride[a], np.where(rows[b] > 1, stride[b], 1 << 40))
    d = low[b] - low[a]
    least = np.maximum((d - run[a]) // step + 1, 1 - rows[b])
    most = np.minimum((d + run[b] - 1) // step, rows[a] - 1)
    return (least <= most) | ((rows[a] > 1) & (rows[b] > 1) & (stride[a] != stride[b]))
