"""The bytes of all memories as pass 1 knows them: concrete ones in the store, and which ones are pending."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from kb_dataexec import MemoryStore
from kb_engine.memory.pending import PendingBytes
from kb_messages import Matrix, split_address


class DeviceMemory:
    """Reads and writes matrices at physical addresses.

    `initial` has the bytes that the first launch found, and is None before.
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.pending = PendingBytes()
        self.initial: MemoryStore | None = None

    def keep_initial(self) -> None:
        """A launch begins: keep the bytes as they are if it is the first."""
        if self.initial is None:
            self.initial = self.store.snapshot()

    def read(self, matrix: Matrix) -> npt.NDArray[Any]:
        """The elements, `rows x cols`, read-only. Raises StoreError for bytes that were never written."""
        return read_matrix(self.store, matrix)

    def read_copy(self, matrix: Matrix) -> npt.NDArray[Any]:
        """The elements as they are now, read-only, whatever is written later."""
        data = self.read(matrix).copy()
        data.flags.writeable = False
        return data

    def write(self, matrix: Matrix, data: npt.NDArray[Any]) -> None:
        """Overwrite the rectangle; its bytes are concrete from now on."""
        write_matrix(self.store, matrix, data)
        self.pending.clear(matrix)


def read_matrix(store: MemoryStore, matrix: Matrix) -> npt.NDArray[Any]:
    """The elements of a rectangle, `rows x cols`, read-only."""
    return store.read(*matrix.rectangle.in_memory, matrix.dtype)


def write_matrix(store: MemoryStore, matrix: Matrix, data: npt.NDArray[Any]) -> None:
    """Overwrite a rectangle with the elements of *data*."""
    store.write(*split_address(matrix.address), data.reshape(matrix.rows, matrix.cols), matrix.stride)
