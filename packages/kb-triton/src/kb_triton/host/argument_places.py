"""ArgumentPlaces: finds the argument of a launch, and the index in it, that a byte of the chip belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_messages import join_address
from kb_triton.host.arrays import type_of
from kb_triton.host.buffers import address_of
from kb_triton.host.storages import Storages


class _Place(NamedTuple):
    """An array of a launch: the argument, the chip's address of its first element, and its form in bytes."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def index_of(self, byte: int) -> tuple[int, ...] | None:
        """The index of the element with the byte at the chip's address *byte*; None for another byte."""
        left, found = byte - self.address, [0] * len(self.shape)
        for size, stride in zip(self.shape, self.strides, strict=True):
            left -= min(stride, 0) * (size - 1)  # from the lowest element on, which is the last one of such an axis
        for axis in sorted(range(len(self.shape)), key=lambda each: -abs(self.strides[each])):
            size, stride = self.shape[axis], self.strides[axis]
            nth = min(left // abs(stride), size - 1) if stride else 0
            left -= nth * abs(stride)
            found[axis] = size - 1 - nth if stride < 0 else nth
        return tuple(found) if 0 <= left < self.itemsize and min(found, default=0) >= 0 else None


class ArgumentPlaces:
    """The places of *arrays*, pairs of argument and array, whose bytes are in *storages*."""

    def __init__(self, arrays: Sequence[tuple[str, Any]], storages: Storages) -> None:
        self._arrays = arrays
        self._storages = storages

    def element_at(self, owner: int, offset: int) -> tuple[str, tuple[int, ...]] | None:
        """Returns the argument and the index of the element with byte *offset* of memory *owner*; None without one.

        Of several arguments that share the byte, it is the first.
        """
        byte = join_address(owner, offset)
        for name, array in self._arrays:
            place = self._place(name, array)
            index = None if place is None else place.index_of(byte)
            if index is not None:
                return name, index
        return None

    def _place(self, name: str, array: Any) -> _Place | None:
        """The place of *array*; None for an array without elements."""
        shape = tuple(map(int, array.shape))
        if 0 in shape:
            return None
        address, itemsize = address_of(array), type_of(array, name).itemsize
        storage = self._storages.of(address)
        if isinstance(array, np.ndarray):
            strides = tuple(array.strides)
        else:
            strides = tuple(int(each) * itemsize for each in array.stride())
        return _Place(name, storage.chip_address + address - storage.address, shape, strides, itemsize)
