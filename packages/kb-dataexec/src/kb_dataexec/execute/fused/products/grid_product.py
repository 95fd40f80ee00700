"""GridProduct: computes the matrix product of one grid of accumulations, in blocks on all cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from itertools import product as pairs
from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast, cast_into, numpy_dtype
from kb_dataexec.arrays.parallel import WORKERS, in_parallel
from kb_dataexec.arrays.scratch import Scratch
from kb_dataexec.backends import current
from kb_dataexec.backends.blas_threads import single_threaded, threads_for
from kb_dataexec.execute.fused.products.grids import Accumulation, ProductGrid, runs
from kb_dataexec.execute.fused.products.panels import factor_of
from kb_dataexec.execute.fused.products.stored_matrix import StoredMatrix, adjoining, below, beside, hull, join, spans
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.gemm import product

_BLOCK: Final = 1024, 4096
"""Rows and columns of the block of a product that one thread computes. Source: measured on 4096 x 4096 x 4096 with
blocks of 512 to 4096 rows and columns: the times differ by a tenth."""

Casts = tuple[int, ...]


class _Block(NamedTuple):
    """A part of a grid: some of its lines, and some accumulations of each of these lines."""

    lines: slice
    columns: slice


class GridProduct:
    """The product of one *grid*. The factors are views of *store* or lie in *scratch*."""

    def __init__(self, grid: ProductGrid, store: MemoryStore, scratch: Scratch) -> None:
        self._grid = grid
        self._store = store
        self._a = factor_of(store, [line[0].a for line in grid], scratch)
        self._b = factor_of(store, [each.b for each in grid[0]], scratch)
        self._rows = spans([line[0].a.breadth for line in grid])
        self._cols = spans([each.b.breadth for each in grid[0]])

    def parts(self) -> Iterator[tuple[Accumulation, slice, slice]]:
        """Yields every accumulation, with its rows and columns in the product."""
        for line, rows in zip(self._grid, self._rows, strict=True):
            for each, cols in zip(line, self._cols, strict=True):
                yield each, rows, cols

    def results(self, wanted: Iterable[Casts]) -> dict[Casts, Array]:
        """Computes the product, once for each of *wanted*, cast to its types one after another."""
        summed = np.dtype(np.int32 if self._a.dtype.kind in "iub" else np.float32)
        shape = self._a.shape[0], self._b.shape[1]
        results = {casts: np.empty(shape, _dtype_after(casts, summed)) for casts in wanted}

        def fill(block: _Block) -> None:
            rows, cols = hull(self._rows[block.lines]), hull(self._cols[block.columns])
            sums = product(self._a[rows], self._b[:, cols])
            self._add_initial(block, sums)
            for casts, result in results.items():
                _cast_along(result[rows, cols], sums, casts)

        blocks = _blocks(self._grid)
        with single_threaded() if len(blocks) > 1 else threads_for(*shape, self._a.shape[1]):
            in_parallel(fill, blocks)
        return results

    def placed(self, casts: Casts, result: Array) -> Iterator[tuple[StoredMatrix, Array]]:
        """Yields the destinations of the parts of *result*, cast to *casts*.

        Adjoining destinations come as one matrix.
        """
        found = [[[to.matrix for to in each.destinations if to.casts == casts] for each in line] for line in self._grid]
        down = adjoining([next(iter(line[0]), None) for line in found], below)
        along = adjoining([next(iter(matrices), None) for matrices in found[0]], beside)
        for lines, columns in pairs(down, along):
            part = [line[columns] for line in found[lines]]
            rows, cols = self._rows[lines], self._cols[columns]
            for copy in range(max(len(matrices) for line in part for matrices in line)):
                copies = [[matrices[copy : copy + 1] for matrices in line] for line in part]
                whole = _joined(copies)
                if whole is not None:
                    yield whole, result[hull(rows), hull(cols)]
                    continue
                for matrices, at in zip(chain.from_iterable(copies), pairs(rows, cols), strict=True):
                    yield from ((matrix, result[at]) for matrix in matrices)

    def _add_initial(self, block: _Block, sums: Array) -> None:
        """Adds the initial matrices of the accumulations of *block* to *sums*, the product of the block."""
        rows, cols = self._rows[block.lines], self._cols[block.columns]
        top, left = rows[0].start, cols[0].start
        for line, down in zip(self._grid[block.lines], rows, strict=True):
            for each, along in zip(line[block.columns], cols, strict=True):
                if each.initial is not None:
                    part = sums[down.start - top : down.stop - top, along.start - left : along.stop - left]
                    part += each.initial.read(self._store)


def _cast_along(out: Array, value: Array, casts: Casts) -> None:
    """Fills *out* with *value*, cast to the types *casts* (codes) one after another. The last type is that of *out*."""
    for code in casts[:-1]:
        value = cast(value, DTYPES[code])
    if casts:
        cast_into(out, value, DTYPES[casts[-1]])
    else:
        out[...] = value


def _dtype_after(casts: Casts, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a value of *dtype* after `_cast_along`."""
    return numpy_dtype(DTYPES[casts[-1]]) if casts else dtype


def _blocks(grid: ProductGrid) -> list[_Block]:
    """*grid* in blocks, each for one thread; one block if there would be fewer blocks than threads."""
    heights, widths = [line[0].a.breadth for line in grid], [each.b.breadth for each in grid[0]]
    columns = list(runs(widths, _BLOCK[1]))
    blocks = [_Block(slice(*lines), slice(*beside)) for lines in runs(heights, _BLOCK[0]) for beside in columns]
    worth = current().shares_cores and len(blocks) >= WORKERS
    return blocks if worth else [_Block(slice(None), slice(None))]


def _joined(part: Sequence[Sequence[Sequence[StoredMatrix]]]) -> StoredMatrix | None:
    """The matrix that the destinations of *part*, one for each accumulation, make together; None if they make none."""
    if any(len(matrices) != 1 for line in part for matrices in line):
        return None
    whole = join([[matrices[0] for matrices in line] for line in part])
    return whole if whole is not None and (whole.rows == 1 or whole.stride >= whole.row_nbytes) else None
