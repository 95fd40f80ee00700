"""An extent: a run of bytes that were written or reserved, and a mask of its valid bytes.

There is no mask while all bytes are valid. A snapshot or the caller may share the arrays; the first to write copies
them. Spare room on both sides of the array lets a matrix that is written tile by tile grow without a copy for each
tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kb_dataexec.arrays.dtypes import Array


class Extent:
    """Bytes [start, stop) of a memory. The first byte of `data` has address `base`, which is at most `start`."""

    __slots__ = ("base", "data", "data_shared", "mask", "mask_shared", "n_valid", "start", "stop")

    def __init__(self, start: int, data: Array, mask: Array | None = None, *, shared: bool = False) -> None:
        self.base = self.start = start
        self.stop = start + data.size
        self.data = data
        self.mask = mask
        self.data_shared = self.mask_shared = shared
        self.n_valid = data.size if mask is None else int(np.count_nonzero(mask))

    @classmethod
    def reserved(cls, start: int, stop: int) -> Extent:
        """Returns the extent [start, stop) without a valid byte. It takes memory when bytes are written.

        Until then, its mask is one byte that is read again and again.
        """
        extent = cls(start, np.empty(stop - start, np.uint8))
        extent.mask, extent.mask_shared, extent.n_valid = np.broadcast_to(np.False_, stop - start), True, 0
        return extent

    @property
    def nbytes(self) -> int:
        """The length of [start, stop), valid bytes or not."""
        return self.stop - self.start

    @property
    def address(self) -> int:
        """The address of `data` in this process."""
        address: int = self.data.__array_interface__["data"][0]
        return address

    def share(self) -> None:
        """Marks the arrays as shared: the extent copies an array before it changes it."""
        self.data_shared = self.mask_shared = True

    def clone(self) -> Extent:
        """Returns a second extent over the same arrays. Both extents copy an array before they change it."""
        self.share()
        twin: Extent = Extent.__new__(Extent)
        for name in Extent.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def part(self, start: int, stop: int) -> Extent:
        """Returns an extent of a part of the range, over the same data and without room to grow."""
        low, high = start - self.base, stop - self.base
        part = Extent(start, self.data[low:high])
        if self.mask is not None:
            part.mask = self.mask[low:high]
            part.n_valid = int(np.count_nonzero(part.mask)) if self.n_valid else 0
        part.data_shared, part.mask_shared = self.data_shared, self.mask_shared
        return part

    def rectangle(self, buffer: Array, offset: int, shape: tuple[int, ...], stride: int, dtype: np.dtype[Any]) -> Array:
        """Returns a view of shape (rows, cols) and type *dtype* on *buffer*, which is `data` or `mask`."""
        return np.ndarray(shape, dtype, buffer, offset - self.base, (stride, dtype.itemsize))

    def is_valid(self, offset: int, rows: int, row_nbytes: int, stride: int) -> bool:
        """Whether all bytes of a rectangle within the range are valid."""
        if self.mask is None or self.n_valid == self.nbytes:
            return True
        return self.n_valid > 0 and bool(
            self.rectangle(self.mask, offset, (rows, row_nbytes), stride, self.mask.dtype).all()
        )

    def assign(self, offset: int, array: Array, stride: int) -> None:
        """Stores a (rows, cols) array and mark its bytes valid."""
        self._own_data()
        self.rectangle(self.data, offset, array.shape, stride, array.dtype)[...] = array
        if self.n_valid < self.nbytes:
            self._mark(offset, array.shape[0], array.shape[1] * array.dtype.itemsize, stride, True)

    def invalidate(self, offset: int, rows: int, row_nbytes: int, stride: int) -> None:
        """Marks the bytes of a rectangle as invalid."""
        if self.n_valid > 0:
            self._mark(offset, rows, row_nbytes, stride, False)

    def _mark(self, offset: int, rows: int, row_nbytes: int, stride: int, valid: bool) -> None:
        if self.mask is None:
            self.mask = np.ones(self.data.size, np.bool_)
        elif self.mask_shared:
            self.mask = self.mask.copy()
        self.mask_shared = False
        view = self.rectangle(self.mask, offset, (rows, row_nbytes), stride, self.mask.dtype)
        if stride >= row_nbytes or rows == 1:
            before = int(np.count_nonzero(view))
            view[...] = valid
            self.n_valid += (view.size if valid else 0) - before
        else:
            view[...] = valid
            self.n_valid = int(np.count_nonzero(self.mask))

    def _own_data(self) -> None:
        if self.data_shared or not self.data.flags.writeable:
            self.data = self.data.copy()
            self.data_shared = False

    def grown(self, start: int, stop: int) -> Extent:
        """Returns this extent enlarged to [start, stop), in place if the spare room allows it."""
        if start < self.base or stop > self.base + self.data.size or self.data_shared or not self.data.flags.writeable:
            return self._reallocated(start, stop)
        if self.mask is None:
            self.mask = np.zeros(self.data.size, np.bool_)
            self.mask[self.start - self.base : self.stop - self.base] = True
        elif self.mask_shared:
            self.mask = self.mask.copy()
        self.mask_shared = False
        self.start, self.stop = start, stop
        return self

    def _reallocated(self, start: int, stop: int) -> Extent:
        room = stop - start
        base = max(0, start - room) if start < self.start else start
        end = stop + room if stop > self.stop else stop
        bigger = Extent(base, np.empty(end - base, np.uint8), np.zeros(end - base, np.bool_))
        bigger.start, bigger.stop = start, stop
        bigger.absorb(self)
        return bigger

    def absorb(self, other: Extent) -> None:
        """Takes over the bytes and the validity of *other*.

        Its range lies within this range and is all invalid here.
        """
        assert self.mask is not None
        mine = slice(other.start - self.base, other.stop - self.base)
        theirs = slice(other.start - other.base, other.stop - other.base)
        self.data[mine] = other.data[theirs]
        self.mask[mine] = True if other.mask is None else other.mask[theirs]
        self.n_valid += other.n_valid
