"""DeviceMemory: all memories in pass 1, with bytes whose values are known and bytes that are pending.

Pass 1 simulates time; the values of compute ops exist only after pass 2.

Design: docs/design/memories.md
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

import numpy.typing as npt

from kb_dataexec import MemoryStore, UnwrittenBytesError
from kb_engine.memory.pending import PendingBytes, Producer
from kb_engine.memory.tiles import MadeTile, TilePart
from kb_messages import OFFSET_BITS, OFFSET_MASK, KernelError, Matrix

_WRITE_BEFORE: Final = "store to these elements before, or give the tensor data when it is made"
_FREED: Final = "the tensor that was there has been freed (host.free): launch before that, or on another tensor"


class UnwrittenLoadError(KernelError):
    """A kernel loads bytes that were never written.

    `byte` is (owner, offset) of the first of them, and `was_released` says whether that one was written and then
    released.
    """

    def __init__(
        self, where: str, got: str, needs: str, fix: str, byte: tuple[int, int], was_released: bool = False
    ) -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, byte, was_released)
        self.byte, self.was_released = byte, was_released

    @classmethod
    def of(cls, error: UnwrittenBytesError) -> UnwrittenLoadError:
        """The error with the sentence of *error* and a remedy for the author of a kernel."""
        return cls(error.where, error.got, error.needs, _WRITE_BEFORE, error.first, error.was_released)

    def at(self, line: str) -> UnwrittenLoadError:
        """The error of a load at the kernel line *line*."""
        return UnwrittenLoadError(f"{line}: {self.where}", self.got, self.needs, self.fix, self.byte, self.was_released)

    def name(self, element: str | None) -> None:
        """Names *element* in the error, to which `byte` belongs; None for a byte of no tensor, or of a freed one."""
        if element is not None:
            self.got = f"{self.got}, first that of {element}"
        elif self.was_released:
            self.fix = _FREED
        self.args = (self.where, self.got, self.needs, self.fix, self.byte, self.was_released)


class DeviceMemory:
    """Reads and writes matrices at physical addresses.

    `store` holds the known bytes, `pending` says which bytes a compute op has yet to produce, and `initial` holds the
    bytes that the first launch found; it is None before that launch. A transfer of a multiple of `burst_nbytes`
    consists of whole bursts in every memory.
    """

    def __init__(self, store: MemoryStore, burst_nbytes: int = 1) -> None:
        self.store = store
        self.burst_nbytes = burst_nbytes
        self.pending = PendingBytes()
        self.initial: MemoryStore | None = None

    def restart(self, store: MemoryStore) -> None:
        """Begins anew with the bytes of *store*. No byte is pending, and there is no `initial`."""
        self.store = store
        self.pending = PendingBytes()
        self.initial = None

    def copy_from(self, other: DeviceMemory) -> None:
        """Hold the bytes that *other* holds now, known and pending ones. `initial` stays as it is."""
        self.store = other.store.snapshot()
        self.pending = deepcopy(other.pending)

    def keep_initial(self) -> None:
        """Keeps a copy of the bytes for `initial`, if there is none yet. Called when a launch begins."""
        if self.initial is None:
            self.initial = self.store.snapshot()

    def read(self, matrix: Matrix) -> npt.NDArray[Any]:
        """The elements, `rows x cols`, read-only. Raises UnwrittenLoadError for bytes that were never written."""
        return self._read(matrix, lasting=False)

    def check_known(self, matrix: Matrix) -> None:
        """Raises UnwrittenLoadError where `read` would. Bytes of one allocation are not checked."""
        if self.store.place(*matrix.rectangle.in_memory, matrix.dtype) is None:
            self.read(matrix)

    def read_copy(self, matrix: Matrix) -> npt.NDArray[Any]:
        """The elements of a matrix, which later writes do not change. Raises the errors of `read`."""
        return self._read(matrix, lasting=True)

    def load(
        self, matrices: Sequence[Matrix], _: Matrix | None, made: MadeTile | None = None
    ) -> tuple[Producer | None, npt.NDArray[Any] | None]:
        """The first producer of pending bytes of *matrices*, and the elements of a tile; one of both is None.

        *made* makes the tile of the elements; without *made*, the tile is the one matrix. The second argument is the
        place of the tile, which only a trace asks. Later writes do not change the elements. Raises UnwrittenLoadError
        for bytes that were never written, if none are pending.
        """
        rectangles = []
        for matrix in matrices:
            rectangle = matrix.rectangle
            producer = self.pending.producer_of(rectangle)
            if producer is not None:
                return producer, None
            rectangles.append(rectangle)
        read, found = self.store.read, []
        try:
            for each, matrix in zip(rectangles, matrices, strict=True):
                owner, offset = each.base >> OFFSET_BITS, each.base & OFFSET_MASK
                found.append(read(owner, offset, each.rows, each.row_nbytes, each.stride, matrix.dtype, lasting=True))
        except UnwrittenBytesError as error:
            raise UnwrittenLoadError.of(error) from None
        return None, found[0] if made is None else made.of(found)

    def put(
        self,
        matrix: Matrix,
        _: Matrix,
        known: npt.NDArray[Any] | None,
        producer: Producer | None,
        part: TilePart | None = None,
    ) -> None:
        """Overwrites *matrix* with *part* of a tile, which lies at the second argument; None stands for all of it.

        Its elements are *known*, or *producer* has yet to produce them.
        """
        if known is None:
            assert producer is not None, "bytes that are not known are pending"
            self.pending.mark(matrix, producer)
        else:
            self.write(matrix, known if part is None else part.of(known))

    def write(self, matrix: Matrix, data: npt.NDArray[Any]) -> None:
        """Overwrites *matrix* with *data*, `rows x cols` elements of its dtype. The bytes are no longer pending."""
        write_matrix(self.store, matrix, data)
        self.pending.clear(matrix)

    def _read(self, matrix: Matrix, lasting: bool) -> npt.NDArray[Any]:
        try:
            return self.store.read(*matrix.rectangle.in_memory, matrix.dtype, lasting)
        except UnwrittenBytesError as error:
            raise UnwrittenLoadError.of(error) from None


def read_matrix(store: MemoryStore, matrix: Matrix) -> npt.NDArray[Any]:
    """The elements of *matrix*, `rows x cols`, read-only. Raises StoreError for bytes that were never written."""
    return store.read(*matrix.rectangle.in_memory, matrix.dtype)


def write_matrix(store: MemoryStore, matrix: Matrix, data: npt.NDArray[Any]) -> None:
    """Overwrites *matrix* with *data*, which has the same number of elements."""
    elements = data.reshape(matrix.rows, matrix.cols)
    store.write(matrix.address >> OFFSET_BITS, matrix.address & OFFSET_MASK, elements, matrix.stride)
