"""Reads of tensors by the host: at once from the store, or after pass 2 when compute ops make their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kb_dataexec import MemoryStore, UnwrittenBytesError
from kb_engine.memory.device_memory import read_matrix
from kb_engine.memory.pending import Producer
from kb_engine.program.values.tensors import Tensor
from kb_messages import KernelError, Matrix


class DeferredRead:
    """A read of bytes that pass 2 will compute. `resolve` returns them after pass 2.

    Any other use as an array raises the error of *producer*, which names the kernel line that makes the bytes.
    """

    def __init__(self, tensor: Tensor, producer: Producer) -> None:
        self.tensor = tensor
        self._producer = producer

    def resolve(self, memory: MemoryStore) -> npt.NDArray[Any]:
        """The tensor, in its shape and dtype, from the memory after pass 2. Raises the errors of `read_tensor`."""
        return read_tensor(memory, self.tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        raise self._producer.error(f"a host read of {self.tensor.name}")


def read_tensor(memory: MemoryStore, tensor: Tensor) -> npt.NDArray[Any]:
    """Reads a whole tensor in its shape, from all of its blocks.

    Raises StoreError where bytes were never written, and KernelError when the copies of a sharded tensor differ.
    """
    first = _read_copy(memory, tensor, 0)
    for copy in range(1, tensor.n_copies):
        other = _read_copy(memory, tensor, copy)
        # Bytes are compared, because NaN is not equal to itself.
        differing = (first.view(np.uint8) != other.view(np.uint8)).reshape(first.size, -1).any(axis=1)
        if differing.any():
            at = tuple(map(int, np.unravel_index(int(differing.argmax()), first.shape)))
            raise KernelError(
                f"read of {tensor.name}",
                f"{first[at]} at {list(at)} of its first copy and {other[at]} of copy {copy}",
                "copies that agree",
                "have every owner write the same to its copy",
            )
    return first.reshape(tensor.shape)


def _read_copy(memory: MemoryStore, tensor: Tensor, copy: int) -> npt.NDArray[Any]:
    """Reads copy number *copy*, of shape (rows, cols)."""
    blocks = tensor.blocks(copy)
    if len(blocks) == 1:
        return _read_block(memory, tensor, blocks[0][1])
    parts = [(where, _read_block(memory, tensor, matrix)) for where, matrix in blocks]
    whole = np.empty((tensor.rows, tensor.cols), dtype=parts[0][1].dtype)
    for where, part in parts:
        whole[where] = part
    return whole


def _read_block(memory: MemoryStore, tensor: Tensor, matrix: Matrix) -> npt.NDArray[Any]:
    """Reads the elements at *matrix*. An error for bytes that were never written names the first element."""
    try:
        return read_matrix(memory, matrix)
    except UnwrittenBytesError as error:
        element = tensor.element_with(*error.first)
        assert element is not None, "the bytes of a block are elements"
        raise error.naming(element) from None
