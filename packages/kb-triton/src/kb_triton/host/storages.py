"""Storages: the bytes of the arrays of one launch, as they lie on the chip, in the address space of this process.

A storage is the allocation that arrays are views of, so arrays that overlap are one storage. A kernel may load an
address, cast it to a pointer, and reach any storage that this process still has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_engine import Tensor
from kb_messages import DType, KernelError
from kb_triton.host.buffers import HostBuffer, buffer_of, expanded, live_buffers

Place = Callable[[str, npt.NDArray[np.uint8]], int]
"""Puts bytes on the chip, under a name, and returns their address there."""
_BY_ADDRESS: Final = "a tensor by its address"
"""The name, in errors, of an array that is no argument."""


class Storage:
    """The bytes [`address`, `address + nbytes`) of this process, which are at `chip_address` on the chip.

    `name` is the name of the first argument that is a view of them. `called` is the same name, with a hint for errors
    where elements of the argument share memory.
    """

    def __init__(self, name: str, buffer: HostBuffer, chip_address: int, called: str) -> None:
        self.name = name
        self.address = buffer.address
        self.nbytes = buffer.end - buffer.address
        self.is_writeable = buffer.is_writeable
        self.chip_address = chip_address
        self._buffer = buffer
        self.called = called
        self._views: dict[DType, Tensor] = {}

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + self.nbytes

    def view(self, dtype: DType) -> Tensor:
        """Returns the bytes as a tensor of the chip, of one dimension, with all whole elements of *dtype*."""
        found = self._views.get(dtype)
        if found is None:
            count = self.nbytes // dtype.nbytes
            found = self._views[dtype] = Tensor(
                name=self.called,
                shape=(count,),
                dtype=dtype,
                row_bounds=(0, 1),
                col_bounds=(0, count),
                addresses=((self.chip_address,),),
            )
        return found

    def as_bytes(self) -> npt.NDArray[np.uint8]:
        """Returns an array of uint8 over the bytes in this process, for reading and writing."""
        return self._buffer.as_bytes()


class Storages:
    """The storages of a launch, in the order in which they were added. *place* puts the bytes of each on the chip."""

    def __init__(self, place: Place) -> None:
        self.found: list[Storage] = []
        self._by_address: list[Storage] = []
        self._starts: list[int] = []
        self._place = place

    def add_all(self, arrays: Sequence[tuple[str, Any]]) -> None:
        """Adds the allocations of *arrays*, pairs of name and array. Allocations that overlap become one storage."""
        buffers = [(name, buffer_of(array, name)) for name, array in arrays]
        joined: list[tuple[str, HostBuffer]] = []
        for name, buffer in buffers:
            meeting = [each for each in joined if each[1].address < buffer.end and buffer.address < each[1].end]
            for each in meeting:
                buffer = _union(each[1], buffer)
            if meeting:
                at = joined.index(meeting[0])
                joined[at] = meeting[0][0], buffer
                joined = [each for each in joined if each not in meeting[1:]]
            elif all((each.address, each.end) != (buffer.address, buffer.end) for _, each in joined):
                joined.append((name, buffer))
        called = {name: f"{name}{ending}" for name, array in arrays if (ending := expanded(array, name))}
        for name, buffer in joined:
            self._add(name, buffer, called.get(name, name))

    def at(self, address: int) -> Storage | None:
        """Returns the storage with the byte at *address*; None if the process has no array there.

        An array that is no argument of the launch, and whose address the kernel has loaded, is put on the chip now.
        """
        found = self._known_at(address)
        if found is not None:
            return found
        for buffer in live_buffers():
            if buffer.address <= address < buffer.end:
                if any(each.address < buffer.end and buffer.address < each.end for each in self.found):
                    return None
                return self._add(_BY_ADDRESS, buffer, _BY_ADDRESS)
        return None

    def of(self, address: int) -> Storage:
        """Returns the storage of an argument whose first element is at *address*. The argument may be empty."""
        found = self._known_at(address)
        if found is None:
            found = next(each for each in self.found if each.address <= address <= each.end)
        return found

    def _known_at(self, address: int) -> Storage | None:
        number = bisect_right(self._starts, address) - 1
        if number >= 0 and address < self._by_address[number].end:
            return self._by_address[number]
        return None

    def _add(self, name: str, buffer: HostBuffer, called: str) -> Storage:
        """Adds a storage for *buffer*, and puts its bytes on the chip unless it is empty."""
        chip_address = self._place(name, buffer.as_bytes()) if buffer.end > buffer.address else -1
        storage = Storage(name, buffer, chip_address, called)
        if storage.nbytes:
            at = bisect_right(self._starts, storage.address)
            self._starts.insert(at, storage.address)
            self._by_address.insert(at, storage)
        self.found.append(storage)
        return storage


def _union(one: HostBuffer, other: HostBuffer) -> HostBuffer:
    return HostBuffer(
        min(one.address, other.address),
        max(one.end, other.end),
        one.is_writeable or other.is_writeable,
        (one.owner, other.owner),
    )


def read_only(storage: Storage, line: str) -> KernelError:
    """Returns the error of a kernel that wrote to *storage*, which is read-only, at *line*."""
    got, needs = f"a store into {storage.name}, a read-only array", "an array that may be written"
    return KernelError(line, got, needs, "pass a copy: x.copy()")
