"""Extents: the contents of one memory as runs of written bytes, sorted by address, which never overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.memory.extent import Extent

_SPARSE_NBYTES = 1 << 24
_SPARSE_RATIO = 64


class Extents:
    """The sorted extents of one memory."""

    __slots__ = ("items", "released", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.items: list[Extent] = []
        self.released: dict[int, int] = {}

    def clone(self) -> Extents:
        """Returns a second object with the same contents. Whichever changes an array first copies it."""
        twin = Extents()
        twin.starts = self.starts.copy()
        twin.items = [extent.clone() for extent in self.items]
        twin.released = self.released.copy()
        return twin

    def overlapping(self, low: int, high: int) -> slice:
        """Returns the slice of `items` that touch [low, high)."""
        first = bisect_right(self.starts, low) - 1
        if first < 0 or self.items[first].stop <= low:
            first += 1
        return slice(first, max(first, bisect_left(self.starts, high)))

    def covering(self, low: int, high: int) -> Extent | None:
        """Returns the extent that holds all of [low, high); None if no single one does."""
        index = bisect_right(self.starts, low) - 1
        if index >= 0 and self.items[index].stop >= high:
            return self.items[index]
        return None

    def put(self, extent: Extent) -> None:
        """Puts *extent* into its range. Extents that were there are cut or dropped."""
        found = self.overlapping(extent.start, extent.stop)
        kept = [extent]
        for old in self.items[found]:
            if old.start < extent.start:
                kept.insert(0, old.part(old.start, extent.start))
            if old.stop > extent.stop:
                kept.append(old.part(extent.stop, old.stop))
        self._replace(found, kept)

    def drop(self, extent: Extent) -> None:
        """Removes *extent*."""
        index = bisect_left(self.starts, extent.start)
        self._replace(slice(index, index + 1), [])

    def room_for(self, low: int, high: int) -> Extent:
        """Returns an extent that covers [low, high), joined from the extents there. Added bytes are invalid."""
        found = self.overlapping(low, high)
        parts = self.items[found]
        if not parts:
            extent = Extent.reserved(low, high)
        else:
            largest = max(parts, key=lambda part: part.nbytes)
            if low >= largest.start and high <= largest.stop:
                return largest
            start, stop = min(low, parts[0].start), max(high, parts[-1].stop)
            others = [part for part in parts if part is not largest]
            extent = largest.grown(start, stop)
            for part in others:
                extent.absorb(part)
        self._replace(found, [extent])
        return extent

    def write(self, offset: int, array: Array, stride: int) -> None:
        """Stores a (rows, cols) array with rows *stride* bytes apart. Rows must not overlap."""
        rows, row_nbytes = array.shape[0], array.shape[1] * array.dtype.itemsize
        span = (rows - 1) * stride + row_nbytes
        extent = self.covering(offset, offset + span)
        if extent is None and span > _SPARSE_NBYTES and span > _SPARSE_RATIO * rows * row_nbytes:
            for row in range(rows):
                self.write(offset + row * stride, array[row : row + 1], row_nbytes)
        elif span == rows * row_nbytes and (extent is None or extent.nbytes == span):
            self.put(Extent(offset, np.array(array, order="C").reshape(-1).view(np.uint8)))
        else:
            (extent or self.room_for(offset, offset + span)).assign(offset, array, stride)

    def gather(self, offset: int, rows: int, row_nbytes: int, stride: int) -> Array:
        """Returns bytes of shape (rows, row_nbytes), copied from several extents.

        Raises LookupError(address) for an invalid byte.
        """
        out = np.empty((rows, row_nbytes), np.uint8)
        if stride == row_nbytes:
            rows, row_nbytes = 1, rows * row_nbytes
        flat = out.reshape(rows, row_nbytes)
        for row in range(rows):
            at = offset + row * stride
            end = at + row_nbytes
            for extent in self.items[self.overlapping(at, end)]:
                low, high = max(at, extent.start), min(end, extent.stop)
                if low > at or not extent.is_valid(low, 1, high - low, high - low):
                    break
                flat[row, low - end + row_nbytes : high - end + row_nbytes] = extent.data[
                    low - extent.base : high - extent.base
                ]
                at = high
            if at < end:
                raise LookupError(self.first_invalid(at, end))
        return out

    def copy_held(self, offset: int, data: Array, is_valid: Array) -> None:
        """Copys the bytes from *offset* on into *data*, as far as there are any, and their flags into *is_valid*."""
        for extent in self.items[self.overlapping(offset, offset + len(data))]:
            low, high = max(offset, extent.start), min(offset + len(data), extent.stop)
            mine, theirs = slice(low - offset, high - offset), slice(low - extent.base, high - extent.base)
            data[mine] = extent.data[theirs]
            is_valid[mine] = True if extent.mask is None else extent.mask[theirs]

    def first_invalid(self, low: int, high: int) -> int:
        """Returns the first address of [low, high) without a valid byte; *high* if all bytes are valid."""
        for extent in self.items[self.overlapping(low, high)]:
            if extent.start > low:
                return low
            stop = min(high, extent.stop)
            if not extent.is_valid(low, 1, stop - low, stop - low):
                assert extent.mask is not None
                return low + int(np.argmin(extent.mask[low - extent.base : stop - extent.base]))
            low = stop
        return low

    def release(self, offset: int, rows: int, row_nbytes: int, stride: int) -> None:
        """Un-initialises the bytes of a rectangle. Invalid bytes stay invalid."""
        if stride == row_nbytes:
            rows, row_nbytes, stride = 1, rows * row_nbytes, rows * row_nbytes
        span = (rows - 1) * stride + row_nbytes
        self.released[offset] = max(offset + span, self.released.get(offset, 0))
        found = self.overlapping(offset, offset + span)
        if found.start == found.stop:
            return
        extent = self.covering(offset, offset + span)
        if extent is not None:
            self._release_within(extent, offset, rows, row_nbytes, stride)
            return
        for row in range(rows):
            at, end = offset + row * stride, offset + row * stride + row_nbytes
            for part in list(self.items[self.overlapping(at, end)]):
                low, high = max(at, part.start), min(end, part.stop)
                self._release_within(part, low, 1, high - low, high - low)

    def was_released(self, address: int) -> bool:
        """Whether *address* lies in a range that was released before."""
        return any(start <= address < stop for start, stop in self.released.items())

    def _release_within(self, extent: Extent, offset: int, rows: int, row_nbytes: int, stride: int) -> None:
        if rows * row_nbytes == extent.nbytes:
            self.drop(extent)
            return
        extent.invalidate(offset, rows, row_nbytes, stride)
        if extent.n_valid == 0:
            self.drop(extent)

    def _replace(self, where: slice, extents: list[Extent]) -> None:
        self.items[where] = extents
        self.starts[where] = [extent.start for extent in extents]
