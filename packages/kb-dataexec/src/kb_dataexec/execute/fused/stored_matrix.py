"""Matrices in memory, joined where they adjoin, so that many small matrices are read at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array, convert
from kb_dataexec.arrays.scratch import Scratch
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.memory.store import MemoryStore


class StoredMatrix(NamedTuple):
    """A matrix of elements in memory. `row_nbytes` and `stride` are bytes; `dtype` is the log's code."""

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
        """The values, (rows, cols). Raises StoreError as `MemoryStore.read` does."""
        return store.read(*self[:5], DTYPES[self.dtype])


def beside(matrices: Sequence[StoredMatrix]) -> StoredMatrix | None:
    """The matrix that *matrices* make from left to right, or None when they do not adjoin in memory."""
    first = matrices[0]
    end = first.offset
    for matrix in matrices:
        alike = matrix.owner == first.owner and matrix.rows == first.rows and matrix.dtype == first.dtype
        if not alike or matrix.offset != end or (matrix.rows > 1 and matrix.stride != first.stride):
            return None
        end += matrix.row_nbytes
    nbytes = end - first.offset
    return first._replace(row_nbytes=nbytes, stride=nbytes if first.rows == 1 else first.stride)


def below(matrices: Sequence[StoredMatrix]) -> StoredMatrix | None:
    """The matrix that *matrices* make from top to bottom, or None when they do not adjoin in memory."""
    if len(matrices) == 1:
        return matrices[0]
    first = matrices[0]
    stride = first.stride if first.rows > 1 else matrices[1].offset - first.offset
    end, rows = first.offset, 0
    if stride <= 0:
        return None
    for matrix in matrices:
        alike = matrix.owner == first.owner and matrix.row_nbytes == first.row_nbytes and matrix.dtype == first.dtype
        if not alike or matrix.offset != end or (matrix.rows > 1 and matrix.stride != stride):
            return None
        end += matrix.rows * stride
        rows += matrix.rows
    return first._replace(rows=rows, stride=stride)


def join(grid: Sequence[Sequence[StoredMatrix]]) -> StoredMatrix | None:
    """The matrix that *grid*, rows of matrices, makes; None when the matrices do not adjoin in memory."""
    lines = [beside(line) for line in grid]
    whole = [line for line in lines if line is not None]
    return below(whole) if len(whole) == len(lines) else None


def gather(store: MemoryStore, grid: Sequence[Sequence[StoredMatrix]], dtype: np.dtype[Any], scratch: Scratch) -> Array:
    """The values of *grid*, rows of matrices, as one (rows, cols) array of *dtype*; a view of *store* if possible."""
    whole = join(grid)
    if whole is not None:
        return convert(whole.read(store), dtype, scratch.empty)
    shape = (sum(line[0].rows for line in grid), sum(matrix.cols for matrix in grid[0]))
    out = scratch.empty(shape, dtype)
    row = 0
    for line in grid:
        col = 0
        joined = beside(line)
        for matrix in line if joined is None else (joined,):
            out[row : row + matrix.rows, col : col + matrix.cols] = matrix.read(store)
            col += matrix.cols
        row += line[0].rows
    return out
