"""StoredMatrix: a matrix in memory. Adjoining matrices are joined, so that many small matrices are read at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise, product
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
        """The number of elements of a row."""
        return self.row_nbytes // DTYPES[self.dtype].nbytes

    def read(self, store: MemoryStore) -> Array:
        """Reads the values, of shape (rows, cols). Raises StoreError for bytes that are not initialised."""
        return store.read(*self[:5], DTYPES[self.dtype])


def beside(matrices: Sequence[StoredMatrix]) -> StoredMatrix | None:
    """Returns the matrix that *matrices* make from left to right; None if they do not adjoin in memory."""
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
    """Returns the matrix that *matrices* make from top to bottom; None if they do not adjoin in memory."""
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
    """Returns the matrix that *grid*, rows of matrices, makes; None if the matrices do not adjoin in memory."""
    lines = [beside(line) for line in grid]
    whole = [line for line in lines if line is not None]
    return below(whole) if len(whole) == len(lines) else None


def gather(store: MemoryStore, grid: Sequence[Sequence[StoredMatrix]], dtype: np.dtype[Any], scratch: Scratch) -> Array:
    """Reads *grid*, rows of matrices, as one array (rows, cols) of *dtype*; a view of *store* if possible."""
    whole = join(grid)
    if whole is not None:
        return convert(whole.read(store), dtype, scratch.empty)
    down, along = spans([line[0].rows for line in grid]), spans([matrix.cols for matrix in grid[0]])
    out = scratch.empty((down[-1].stop, along[-1].stop), dtype)
    for lines, columns in product(adjoining([line[0] for line in grid], below), adjoining(grid[0], beside)):
        part = [line[columns] for line in grid[lines]]
        joined = join(part)
        if joined is not None:
            out[hull(down[lines]), hull(along[columns])] = joined.read(store)
            continue
        for line, rows in zip(part, down[lines], strict=True):
            for matrix, cols in zip(line, along[columns], strict=True):
                out[rows, cols] = matrix.read(store)
    return out


def adjoining(
    matrices: Sequence[StoredMatrix | None], joined: Callable[[list[StoredMatrix]], StoredMatrix | None]
) -> list[slice]:
    """Splits *matrices* into runs of neighbours that *joined* can join. None adjoins nothing."""
    begin, found = 0, []
    for at, (left, right) in enumerate(pairwise(matrices), 1):
        if left is None or right is None or joined([left, right]) is None:
            found.append(slice(begin, at))
            begin = at
    return [*found, slice(begin, len(matrices))]


def spans(lengths: Sequence[int]) -> list[slice]:
    """Returns slices of *lengths*, one behind the other."""
    ends = list(accumulate(lengths))
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def hull(parts: Sequence[slice]) -> slice:
    """Returns the slice from the begin of the first to the end of the last of *parts*."""
    return slice(parts[0].start, parts[-1].stop)
