"""MemoryStore: the contents of all memories of a system, byte by byte. Bytes that nobody wrote take no space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, numpy_dtype
from kb_dataexec.memory import files as storefile
from kb_dataexec.memory.contents import Extents
from kb_dataexec.memory.extent import Extent
from kb_messages import DType, KbError, join_address

_MOST_RESERVED_NBYTES: Final = 1 << 32


class StoreError(KbError):
    """A read or write that no memory can serve: unwritten or released bytes, out of range, or misaligned.

    `byte` is (owner, offset) of the first byte that could not be read or is misaligned, or None. `op_id` is the op that
    asked, or None.
    """

    byte: tuple[int, int] | None = None
    op_id: int | None = None

    def naming(self, element: str) -> StoreError:
        """Returns the error with the name *element* of the element of the byte."""
        self.got = f"{self.got}, first that of {element}"
        return self


class UnwrittenBytesError(StoreError):
    """A read of bytes that are not initialised. `first` is (owner, offset) of the first one.

    `was_released` is True if that byte was written and then released.
    """

    def __init__(self, where: str, got: str, needs: str, first: tuple[int, int], was_released: bool = False) -> None:
        super().__init__(where, got, needs)
        self.args = (where, got, needs, first, was_released)
        self.byte = self.first = first
        self.was_released = was_released


class _Region:
    """A memory. With *is_shared*, a region of another store has the same `extents`, so whoever changes them clones
    them first."""

    __slots__ = ("extents", "is_shared", "label", "nbytes", "owner")

    def __init__(self, owner: int, nbytes: int, label: str, extents: Extents, is_shared: bool = False) -> None:
        self.owner, self.nbytes, self.label, self.extents = owner, nbytes, label, extents
        self.is_shared = is_shared

    @property
    def own_extents(self) -> Extents:
        """Returns the extents for a change of them: a copy, if another store shares them."""
        if self.is_shared:
            self.extents, self.is_shared = self.extents.clone(), False
        return self.extents

    def twin(self) -> _Region:
        """Returns a region with the same contents."""
        self.is_shared = True
        return _Region(self.owner, self.nbytes, self.label, self.extents, is_shared=True)

    def where(self, offset: int) -> str:
        return f"{self.label} + {offset:#x} (address {join_address(self.owner, offset):#x})"


class MemoryStore:
    """The contents of the memories in *regions*, (owner, nbytes, label) each.

    `owner` is the number that `kb_messages.owner_of` gives, and offsets count bytes from the start of the memory. A
    rectangle is `rows` runs of `row_nbytes` bytes, `stride` bytes apart. Only bytes that were written or reserved take
    space. All methods raise StoreError for an unknown owner and for a range outside its memory.
    """

    def __init__(self, regions: Iterable[tuple[int, int, str]]) -> None:
        self._regions = {owner: _Region(owner, nbytes, label, Extents()) for owner, nbytes, label in regions}

    @property
    def regions(self) -> list[tuple[int, int, str]]:
        """Returns (owner, nbytes, label) of every memory, by owner."""
        return [(region.owner, region.nbytes, region.label) for _, region in sorted(self._regions.items())]

    @property
    def nbytes_held(self) -> int:
        """The bytes of all extents, including reserved bytes."""
        return sum(extent.nbytes for region in self._regions.values() for extent in region.extents.items)

    def add_region(self, owner: int, nbytes: int, label: str) -> None:
        """Adds an empty memory. It replaces an earlier memory of the same owner."""
        self._regions[owner] = _Region(owner, nbytes, label, Extents())

    def remove_region(self, owner: int) -> None:
        """Removes a memory and its contents."""
        del self._regions[owner]

    def write(self, owner: int, offset: int, data: Array | bytes, stride: int | None = None) -> None:
        """Copys *data* to *offset*: bytes or a 1-D array as one row, a 2-D array as rows that begin *stride* bytes
        apart.

        Without *stride*, rows follow each other without a gap. Raises StoreError for rows that overlap.
        """
        array = np.frombuffer(data, np.uint8) if isinstance(data, bytes | bytearray | memoryview) else data
        array = array if array.ndim == 2 else array.reshape(1, -1)
        row_nbytes = array.shape[1] * array.dtype.itemsize
        stride = row_nbytes if stride is None or array.shape[0] == 1 else stride
        region = self._checked(owner, offset, array.shape[0], row_nbytes, stride)
        if stride < row_nbytes:
            raise StoreError(
                region.where(offset),
                f"a write of {row_nbytes}-byte rows {stride} bytes apart",
                "rows that do not overlap",
            )
        region.own_extents.write(offset, array, stride)

    def write_tensor(self, owner: int, offset: int, array: Array, copy: bool = True) -> None:
        """Stores a whole tensor (any shape, row-major) contiguously at *offset*.

        With ``copy=False``, the store keeps a C-contiguous *array* without copying it and makes it read-only; a later
        write into its range copies it first. An array that others could still change, such as a view of a writeable
        array, is copied all the same.
        """
        shared = not copy and array.flags.c_contiguous and not _changed_by_others(array)
        if shared:
            array.setflags(write=False)
        else:
            array = np.array(array, order="C")
        flat = array.reshape(-1).view(np.uint8)
        region = self._checked(owner, offset, 1, flat.size, flat.size)
        region.own_extents.put(Extent(offset, flat, shared=shared))

    def reserve(self, owner: int, offset: int, nbytes: int) -> None:
        """Holds [offset, offset + nbytes) in one array, so that rectangles written there need no joining.

        Valid bytes stay valid. The other bytes stay uninitialised and take space only when they are written. A range of
        more than 4 GiB is not held, because this machine may not have as much.
        """
        region = self._checked(owner, offset, 1, nbytes, nbytes)
        if nbytes <= _MOST_RESERVED_NBYTES:
            region.own_extents.room_for(offset, offset + nbytes)

    def read(
        self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int, dtype: DType, lasting: bool = False
    ) -> Array:
        """Reads the rectangle as a read-only array of *dtype* and shape (rows, row_nbytes / itemsize).

        Rows may overlap. The array is a view if one extent holds the whole rectangle, else a copy. A later write may
        show through a view, so copy what you keep. A *lasting* array shows no later write: it is a view only of bytes
        that a snapshot or the caller has too, because who writes there copies them first. Raises StoreError for a byte
        that is not initialised, and for an address that is no multiple of the element size.
        """
        region = self._checked(owner, offset, rows, row_nbytes, stride, dtype)
        target = numpy_dtype(dtype)
        shape = (rows, row_nbytes // target.itemsize)
        extents = region.extents
        extent = extents.covering(offset, offset + (rows - 1) * stride + row_nbytes)
        if extent is None:
            try:
                out = extents.gather(offset, rows, row_nbytes, stride).view(target)
            except LookupError as error:
                raise self._invalid(region, offset, rows, row_nbytes, stride, dtype, error.args[0]) from None
        elif extent.n_valid == extent.stop - extent.start or extent.is_valid(offset, rows, row_nbytes, stride):
            out = np.ndarray(shape, target, extent.data, offset - extent.base, (stride, target.itemsize))
            if lasting and not (region.is_shared or extent.data_shared):
                out = out.copy()
        else:
            raise self._invalid(region, offset, rows, row_nbytes, stride, dtype, None)
        out.setflags(write=False)
        return out

    def read_each(
        self, owner: int, offsets: Sequence[int], rows: int, row_nbytes: int, stride: int, dtype: DType
    ) -> Array:
        """Reads the rectangles of one shape at *offsets*: one read-only array (number, rows, elements of a row).

        A single rectangle may be a view. Raises StoreError for a byte that is not initialised, and for an address that
        is no multiple of the element size.
        """
        if len(offsets) == 1:
            return self.read(owner, offsets[0], rows, row_nbytes, stride, dtype)[None]
        target, span = numpy_dtype(dtype), (rows - 1) * stride + row_nbytes
        shape = (rows, row_nbytes // target.itemsize)
        out = np.empty((len(offsets), *shape), target)
        extents = self._checked(owner, offsets[0], rows, row_nbytes, stride, dtype).extents
        for number, offset in enumerate(offsets):
            extent = extents.covering(offset, offset + span)
            if extent is None or offset % target.itemsize or not extent.is_valid(offset, rows, row_nbytes, stride):
                out[number] = self.read(owner, offset, rows, row_nbytes, stride, dtype)
            else:
                out[number] = extent.rectangle(extent.data, offset, shape, stride, target)
        out.setflags(write=False)
        return out

    def place(
        self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int, dtype: DType | None = None
    ) -> int | None:
        """Returns a number that is equal for rectangles of one shape that are the same bytes of a shared array, as
        replicas are.

        Returns None if no single extent holds the rectangle, or a byte is not initialised. A write may give the
        rectangle another number. Raises StoreError for a rectangle out of range, or misaligned for *dtype*.
        """
        extents = self._checked(owner, offset, rows, row_nbytes, stride, dtype).extents
        extent = extents.covering(offset, offset + (rows - 1) * stride + row_nbytes)
        if extent is None or not extent.is_valid(offset, rows, row_nbytes, stride):
            return None
        return extent.address + offset - extent.base

    def held(self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int) -> tuple[Array, Array]:
        """Returns copies of the bytes of the rectangle, and whether each is initialised: two arrays (rows, row_nbytes).

        Bytes that are not initialised mean nothing.
        """
        extents = self._checked(owner, offset, rows, row_nbytes, stride).extents
        data, is_valid = np.zeros((rows, row_nbytes), np.uint8), np.zeros((rows, row_nbytes), np.bool_)
        for row in range(rows):
            extents.copy_held(offset + row * stride, data[row], is_valid[row])
        return data, is_valid

    def release(self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int) -> None:
        """Un-initialises the bytes of the rectangle. Reading them before the next write is an error."""
        self._checked(owner, offset, rows, row_nbytes, stride).own_extents.release(offset, rows, row_nbytes, stride)

    def snapshot(self) -> MemoryStore:
        """Returns a second store with the same contents. Changes of one store do not show in the other.

        No bytes are copied: the stores share the extents of a memory until one of them changes that memory, and the
        bytes of an extent until one of them writes there.
        """
        twin = MemoryStore(())
        twin._regions = {owner: region.twin() for owner, region in self._regions.items()}
        return twin

    def differs_from(self, other: MemoryStore) -> str:
        """The place of the first byte that one store has and the other has not, or has with another value; "" if none.

        Both stores have the same memories.
        """
        for owner, region in sorted(self._regions.items()):
            theirs = other._regions[owner]
            if region.extents is theirs.extents:
                continue
            spans = sorted({(each.start, each.nbytes) for each in (*region.extents.items, *theirs.extents.items)})
            for start, nbytes in spans:
                mine, is_mine = self.held(owner, start, 1, nbytes, nbytes)
                others, is_theirs = other.held(owner, start, 1, nbytes, nbytes)
                differs = (is_mine != is_theirs) | (is_mine & (mine != others))
                if differs.any():
                    return region.where(start + int(differs.argmax()))
        return ""

    def check(self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int, dtype: DType) -> None:
        """Raises StoreError for a rectangle out of range, or misaligned for *dtype*, whatever its content."""
        self._checked(owner, offset, rows, row_nbytes, stride, dtype)

    def save(self, folder: Path) -> None:
        """Writes `index.json` and, for each extent, a .npy file of bytes and, if not all are valid, one of flags.

        The same history of calls gives the same files. Uninitialised bytes are written as zeros.
        """
        held = [
            (region.owner, extent) for _, region in sorted(self._regions.items()) for extent in region.extents.items
        ]
        storefile.save(folder, self.regions, held)

    @classmethod
    def load(cls, folder: Path, regions: Iterable[tuple[int, int, str]] | None = None) -> MemoryStore:
        """Reads the store that `save` wrote, with the memories *regions* (default: the saved memories).

        Raises StoreError if the folder holds no such store, its files are damaged or lead out of the folder, two
        extents overlap, or an extent lies outside *regions*.
        """
        saved, held = storefile.load(folder, StoreError)
        store = cls(saved if regions is None else regions)
        for owner, extent in held:
            region = store._checked(owner, extent.start, 1, extent.nbytes, extent.nbytes)
            region.own_extents.put(extent)
        return store

    def _checked(
        self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int, dtype: DType | None = None
    ) -> _Region:
        region = self._regions.get(owner)
        if region is None:
            raise StoreError(f"owner {owner:#x}", "no memory of that number", f"one of {len(self._regions)} memories")
        if rows < 1 or row_nbytes < 1 or stride < 0:
            raise StoreError(
                region.where(max(offset, 0)),
                f"{rows} rows of {row_nbytes} bytes, {stride} apart",
                "at least one byte and a stride of 0 or more",
            )
        stop = offset + (rows - 1) * stride + row_nbytes
        if offset < 0 or stop > region.nbytes:
            raise StoreError(
                region.where(offset) if offset >= 0 else region.label,
                f"bytes {offset:#x} to {stop:#x}",
                f"a range within its {region.nbytes:#x} bytes",
            )
        if dtype is not None:
            size = dtype.nbytes
            if offset % size or row_nbytes % size or (rows > 1 and stride % size):
                needs = f"offset, rows and stride in multiples of {dtype}'s {size} bytes"
                error = StoreError(region.where(offset), f"rows of {row_nbytes} bytes, {stride} apart", needs)
                error.byte = owner, offset
                raise error
        return region

    def _invalid(
        self, region: _Region, offset: int, rows: int, row_nbytes: int, stride: int, dtype: DType, at: int | None
    ) -> UnwrittenBytesError:
        if at is None:
            ends = ((offset + r * stride, offset + r * stride + row_nbytes) for r in range(rows))
            at = next(bad for low, high in ends if (bad := region.extents.first_invalid(low, high)) < high)
        was_released = region.extents.was_released(at)
        known = "were released" if was_released else "were never written"
        shape = f"{rows} x {row_nbytes // dtype.nbytes} {dtype}"
        got = f"a read of {shape} whose bytes from {at:#x} on {known}"
        return UnwrittenBytesError(region.where(offset), got, "initialised bytes", (region.owner, at), was_released)


def _changed_by_others(array: Array) -> bool:
    """Whether somebody else can write the bytes of *array* when *array* itself is read-only."""
    base = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return base is not None and not isinstance(base, bytes)
