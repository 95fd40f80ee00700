"""Reads, writes, releases and checks many cells with few calls of the store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kb_dataexec.arrays.dtypes import Array, numpy_dtype
from kb_dataexec.execute.fused.accesses.cells import Cells
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.memory.store import MemoryStore


class CellAccess:
    """The cells of a window in *store*. A stack is an array of shape (cells, rows, columns)."""

    def __init__(self, cells: Cells, store: MemoryStore) -> None:
        self._store = store
        self._owner, self._offset, self._rows, self._row_nbytes, self._stride, self._dtype = cells.columns
        self._rectangles = cells.columns[:5]
        self._shape_id = cells.shape_id
        self._is_packed = (self._rows == 1) | (self._stride == self._row_nbytes)
        self._held: dict[int, Array] = {}
        self.n_cells = len(self._shape_id)

    def read(self, cells: Array) -> Array:
        """The stack of *cells*, all of one shape and type. Raises StoreError for bytes that are not initialised."""
        distinct, index = np.unique(cells, return_inverse=True)
        distinct, index = self._by_address(distinct, index.reshape(-1))
        dtype = DTYPES[int(self._dtype[distinct[0]])]
        rows, row_nbytes = int(self._rows[distinct[0]]), int(self._row_nbytes[distinct[0]])
        shape = (rows, row_nbytes // dtype.nbytes)
        found = []
        for start, stop, step in self._together(distinct, dtype.nbytes):
            owner, offset = int(self._owner[distinct[start]]), int(self._offset[distinct[start]])
            if step:
                found.append(self._store.read(owner, offset, stop - start, rows * row_nbytes, step, dtype))
            else:
                offsets, stride = self._offset[distinct[start:stop]].tolist(), int(self._stride[distinct[start]])
                found.append(self._store.read_each(owner, offsets, rows, row_nbytes, stride, dtype))
        stacks = [array.reshape(-1, *shape) for array in found]
        stack = stacks[0] if len(stacks) == 1 else np.concatenate(stacks)
        return stack if len(index) == len(stack) and (np.diff(index) == 1).all() else stack[index]

    def read_all(self, cells: Array) -> Array:
        """The stack of *cells*, of one size and type, in the shape of the first.

        Raises StoreError for bytes that are not initialised.
        """
        shape = self._shape_id[cells]
        if (shape == shape[0]).all():
            return self.read(cells)
        first = self.read(cells[:1])[0]
        out = np.empty((len(cells), *first.shape), first.dtype)
        for label in np.unique(shape).tolist():
            mine = shape == label
            out[mine] = self.read(cells[mine]).reshape(-1, *first.shape)
        return out

    def hold(self, cell: int, wanted: Array) -> bool:
        """Keeps the content of *cell* in the store for `held`.

        Returns whether all *wanted* bytes, a mask, are initialised.
        """
        data, is_valid = self._store.held(*(int(column[cell]) for column in self._rectangles))
        self._held[cell] = data.view(numpy_dtype(DTYPES[int(self._dtype[cell])]))
        return bool((is_valid | ~wanted).all())

    def held(self, cells: Array) -> Array:
        """The stack of *cells*, all of one shape and type, as `hold` kept them. Uninitialised bytes mean nothing."""
        return np.stack([self._held[cell] for cell in cells.tolist()])

    def check_readable(self, cells: Array) -> None:
        """Raises StoreError unless all bytes of *cells* are initialised and aligned."""
        shape = self._shape_id[cells]
        order = np.argsort(shape, kind="stable")
        for part in np.split(cells[order], np.flatnonzero(np.diff(shape[order])) + 1):
            if len(part):
                self._check_part(part)

    def check_all(self) -> None:
        """Raises IrregularError when a cell is in no memory or misaligned. Running one by one then names the record."""
        regions = self._store.regions
        owners = np.array([owner for owner, _, _ in regions], np.int64)
        sizes = np.array([nbytes for _, nbytes, _ in regions], np.int64)
        at = np.minimum(np.searchsorted(owners, self._owner), len(owners) - 1)
        itemsize = np.array([dtype.nbytes for dtype in DTYPES])[self._dtype]
        stop = self._offset + (self._rows - 1) * self._stride + self._row_nbytes
        fits = (owners[at] == self._owner) & (self._offset >= 0) & (stop <= sizes[at])
        fits &= (self._rows > 0) & (self._row_nbytes > 0) & (self._stride >= 0)
        fits &= (self._offset % itemsize == 0) & (self._row_nbytes % itemsize == 0)
        fits &= (self._rows == 1) | (self._stride % itemsize == 0)
        if not fits.all():
            raise IrregularError("a rectangle that no memory has")

    def have_overlapping_rows(self, cells: Array) -> bool:
        """Whether the rows of any of *cells* overlap each other."""
        return bool(((self._rows[cells] > 1) & (self._stride[cells] < self._row_nbytes[cells])).any())

    def write(self, cells: Array, stack: Array) -> None:
        """Writes *stack*[i] to *cells*[i], in the shape of the cell. No two of *cells* share a byte."""
        cells, index = self._by_address(cells, np.arange(len(cells)))
        back = np.empty(len(cells), np.int64)
        back[index] = np.arange(len(cells))
        nbytes = int(self._rows[cells[0]] * self._row_nbytes[cells[0]])
        for start, stop, step in self._progressions(cells, 1):
            owner, offset = int(self._owner[cells[start]]), int(self._offset[cells[start]])
            if step == nbytes and self._is_packed[cells[start]]:
                self._store.write(owner, offset, stack[back[start:stop]].reshape(-1))
                continue
            for at in range(start, stop):
                self._write_one(int(cells[at]), stack[back[at]])

    def release(self, cells: Array) -> None:
        """Un-initialises the bytes of *cells*."""
        packed, loose = cells[self._is_packed[cells]], cells[~self._is_packed[cells]]
        packed = self._by_address(packed, packed)[0]
        low, owner = self._offset[packed], self._owner[packed]
        high = low + self._rows[packed] * self._row_nbytes[packed]
        begin = 0
        for end in range(1, len(packed) + 1):
            if end == len(packed) or owner[end] != owner[begin] or low[end] != high[end - 1]:
                nbytes = int(high[end - 1] - low[begin])
                self._store.release(int(owner[begin]), int(low[begin]), 1, nbytes, nbytes)
                begin = end
        for cell in loose.tolist():
            self._store.release(*(int(column[cell]) for column in self._rectangles))

    def _check_part(self, cells: Array) -> None:
        cells = self._by_address(cells, cells)[0]
        dtype = DTYPES[int(self._dtype[cells[0]])]
        rows, row_nbytes = int(self._rows[cells[0]]), int(self._row_nbytes[cells[0]])
        packed, loose = cells[self._is_packed[cells]], cells[~self._is_packed[cells]]
        for start, stop, step in self._progressions(packed, dtype.nbytes):
            owner, offset = int(self._owner[packed[start]]), int(self._offset[packed[start]])
            self._store.read(owner, offset, stop - start, rows * row_nbytes, step or rows * row_nbytes, dtype)
        for owner, offset, stride, count in self._side_by_side(loose, row_nbytes):
            self._store.read(owner, offset, rows, count * row_nbytes, stride, dtype)

    def _write_one(self, cell: int, value: Array) -> None:
        owner, offset = int(self._owner[cell]), int(self._offset[cell])
        self._store.write(owner, offset, value.reshape(int(self._rows[cell]), -1), int(self._stride[cell]))

    def _by_address(self, cells: Array, index: Array) -> tuple[Array, Array]:
        """Returns (*cells* sorted by owner and offset, *index* changed to refer to the sorted cells)."""
        order = np.lexsort((self._offset[cells], self._owner[cells]))
        place = np.empty(len(cells), np.int64)
        place[order] = np.arange(len(cells))
        return cells[order], place[index] if len(index) and index.max() < len(cells) else index

    def _side_by_side(self, cells: Array, row_nbytes: int) -> Iterator[tuple[int, int, int, int]]:
        """Runs of *cells*, sorted by address, that lie side by side, as (owner, offset, stride, number of cells)."""
        owner, offset, stride = self._owner[cells], self._offset[cells], self._stride[cells]
        beside = (np.diff(owner) == 0) & (np.diff(offset) == row_nbytes) & (np.diff(stride) == 0)
        starts = np.flatnonzero(np.append(True, ~beside)[: len(cells)])
        counts = np.diff(np.append(starts, len(cells)))
        return zip(
            *(column.tolist() for column in (owner[starts], offset[starts], stride[starts], counts)), strict=True
        )

    def _together(self, cells: Array, itemsize: int) -> Iterator[tuple[int, int, int]]:
        """Runs (start, stop, step) of *cells*, like `_progressions`, with single cells of one memory and stride
        together.

        Their step is 0.
        """
        owner, stride = self._owner[cells], self._stride[cells]
        moves = ((np.diff(owner) != 0) | (np.diff(stride) != 0)).tolist()
        begin = end = 0
        for start, stop, step in self._progressions(cells, itemsize):
            if begin < end and (step or moves[start - 1]):
                yield begin, end, 0
                begin = end
            if step:
                yield start, stop, step
                begin = stop
            end = stop
        if begin < end:
            yield begin, end, 0

    def _progressions(self, cells: Array, itemsize: int) -> Iterator[tuple[int, int, int]]:
        """Runs (start, stop, step) of *cells*: packed cells of one memory that are *step* bytes apart, or single
        cells."""
        owner, offset, packed = self._owner[cells], self._offset[cells], self._is_packed[cells]
        step = np.diff(offset)
        good = (owner[1:] == owner[:-1]) & packed[1:] & packed[:-1] & (step > 0) & (step % itemsize == 0)
        step = np.where(good, step, -1)
        ends = np.append(np.flatnonzero(np.diff(step) != 0) + 1, len(step))
        at, n = 0, len(cells)
        steps = step.tolist()
        next_end = 0
        bounds = ends.tolist()
        while at < n:
            if at == n - 1 or steps[at] < 0:
                yield at, at + 1, 0
                at += 1
                continue
            while bounds[next_end] <= at:
                next_end += 1
            yield at, bounds[next_end] + 1, steps[at]
            at = bounds[next_end] + 1
