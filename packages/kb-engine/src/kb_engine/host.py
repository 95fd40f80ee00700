"""The host's side: allocate tensors in HBM, write them, launch kernels, read results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_dataexec.dtypes import numpy_dtype
from kb_dataexec.store import MemoryStore
from kb_engine.allocator import Allocator, OutOfMemoryError
from kb_engine.device_memory import read_matrix
from kb_engine.engine import Engine, LaunchResult
from kb_engine.kernel_runner import Kernel
from kb_engine.language.tensors import Tensor
from kb_engine.pending import Producer
from kb_messages.address import OFFSET_BITS, OFFSET_MASK, MemorySpace
from kb_messages.dtypes import DType
from kb_messages.errors import KernelError


class DeferredRead:
    """A read of bytes that compute ops have yet to produce. `resolve(memory)` gives them after pass 2."""

    def __init__(self, tensor: Tensor, producer: Producer) -> None:
        self.tensor = tensor
        self._producer = producer

    def resolve(self, memory: MemoryStore) -> npt.NDArray[Any]:
        """The tensor, in its shape, from the memory that pass 2 left behind."""
        return read_tensor(memory, self.tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        raise self._producer.error(f"a host read of {self.tensor.name}")


class Host:
    """The host's API. `launch` returns when the kernel is done; there is one memory for all launches."""

    def __init__(self, engine: Engine, root: Path | None = None) -> None:
        self.engine = engine
        self.launches: list[LaunchResult] = []
        self._root = root or Path.cwd()
        self._hbm = [
            (region, Allocator(region.node_id, region.base, region.nbytes))
            for region in engine.topology.address_map.regions
            if region.space is MemorySpace.HBM
        ]

    @property
    def num_pes(self) -> int:
        """PEs of the chip."""
        return len(self.engine.pes)

    @property
    def num_slices(self) -> int:
        """HBM slices of the chip."""
        return len(self._hbm)

    def empty(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType | str,
        blocks: tuple[int, int] = (1, 1),
        slices: Sequence[int] | None = None,
    ) -> Tensor:
        """A tensor of one or two dimensions whose bytes are not written yet.

        It is cut into `blocks` (down the rows, along the columns) as even as can be. Each block, row by row of the
        cut, lies packed in the HBM slice that *slices* names; left out, the blocks are spread evenly. Raises
        KernelError for a shape, a cut or slices that make no sense, and OutOfMemoryError when a slice is full.
        """
        dtype = DType(dtype)
        if len(shape) not in (1, 2) or any(size < 1 for size in shape):
            raise KernelError(f"tensor {name}", f"shape {shape}", "one or two positive sizes")
        rows, cols = (1, shape[0]) if len(shape) == 1 else shape
        down, along = blocks
        if not (1 <= down <= rows and 1 <= along <= cols):
            raise KernelError(
                f"tensor {name}", f"{down} x {along} blocks of {rows} x {cols}", "1 up to one per row, column"
            )
        row_bounds, col_bounds = block_bounds(rows, down), block_bounds(cols, along)
        homes = iter(self._homes(name, down * along, slices))
        addresses = tuple(
            tuple(
                self._allocate(name, next(homes), (bottom - top) * (right - left) * dtype.nbytes)
                for left, right in pairwise(col_bounds)
            )
            for top, bottom in pairwise(row_bounds)
        )
        return Tensor(
            name=name, shape=shape, dtype=dtype, row_bounds=row_bounds, col_bounds=col_bounds, addresses=addresses
        )

    def tensor(
        self,
        name: str,
        data: npt.NDArray[Any],
        dtype: DType | str,
        blocks: tuple[int, int] = (1, 1),
        slices: Sequence[int] | None = None,
    ) -> Tensor:
        """A tensor that holds *data*, whose numpy type must be that of *dtype*; the host copies it once."""
        tensor = self.empty(name, data.shape, dtype, blocks, slices)
        self.write(tensor, data)
        return tensor

    def write(self, tensor: Tensor, data: npt.NDArray[Any]) -> None:
        """Overwrite *tensor*. Raises KernelError when *data* has another shape or element type."""
        if data.shape != tensor.shape or data.dtype != numpy_dtype(tensor.dtype):
            raise KernelError(
                f"write of {tensor.name}",
                f"{data.dtype} of shape {data.shape}",
                f"{tensor.dtype} of shape {tensor.shape}",
            )
        whole = data.reshape(tensor.rows, tensor.cols)
        for (rows, cols), matrix in tensor.blocks():
            block = np.array(whole[rows, cols], order="C", copy=True)
            owner, offset = matrix.address >> OFFSET_BITS, matrix.address & OFFSET_MASK
            self.engine.memory.store.write_tensor(owner, offset, block, copy=False)
            self.engine.memory.pending.clear(matrix)
            if self.engine.initial_memory is not None:
                self.engine.log_host_write(matrix, block.tobytes())

    def launch(self, kernel: Kernel, *arguments: Any, pes: Sequence[int] | None = None) -> LaunchResult:
        """Run *kernel* on every PE (or those numbered in *pes*), each as one program.

        Tensors, and lists and tuples of them, arrive as references; everything else as it is.
        """
        ids = list(self.engine.pes)
        wanted = range(len(ids)) if pes is None else pes
        for number in wanted:
            if not 0 <= number < len(ids):
                raise KernelError("launch", f"PE {number}", f"0 to {len(ids) - 1}")
        if len(set(wanted)) != len(wanted):
            raise KernelError("launch", f"PEs {list(wanted)}", "each at most once")
        passed = [_as_reference(argument) for argument in arguments]
        result = self.engine.launch(kernel, passed, [ids[number] for number in wanted], self._root)
        self.launches.append(result)
        return result

    def read(self, tensor: Tensor) -> npt.NDArray[Any] | DeferredRead:
        """The tensor's data, or a DeferredRead when a compute op makes some of it."""
        for _, matrix in tensor.blocks():
            producer = self.engine.memory.pending.producer(matrix)
            if producer is not None:
                return DeferredRead(tensor, producer)
        return read_tensor(self.engine.memory.store, tensor)

    def _homes(self, name: str, count: int, slices: Sequence[int] | None) -> Sequence[int]:
        available = len(self._hbm)
        if not available:
            raise OutOfMemoryError(f"tensor {name}", "a topology without HBM", "at least one HBM slice")
        if slices is None:
            return [number * available // count for number in range(count)]
        if len(slices) != count or not all(0 <= number < available for number in slices):
            raise KernelError(
                f"tensor {name}",
                f"slices {list(slices)}",
                f"a number from 0 to {available - 1} for each of {count} blocks",
            )
        return slices

    def _allocate(self, name: str, slice_number: int, nbytes: int) -> int:
        region, allocator = self._hbm[slice_number]
        try:
            address = allocator.allocate(nbytes)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"tensor {name} in {error.where}", error.got, error.needs, error.fix) from None
        self.engine.memory.store.reserve(region.owner, address & OFFSET_MASK, nbytes)
        return address


def _as_reference(argument: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(map(_as_reference, argument))
    return argument.ref if isinstance(argument, Tensor) else argument


def block_bounds(size: int, count: int) -> tuple[int, ...]:
    """Where each of *count* blocks begins, and *size* at the end; sizes differ by at most one."""
    return tuple(number * size // count for number in range(count + 1))


def read_tensor(memory: MemoryStore, tensor: Tensor) -> npt.NDArray[Any]:
    """A whole tensor, blocks put together. Raises StoreError where bytes were never written."""
    blocks = tensor.blocks()
    if len(blocks) == 1:
        return read_matrix(memory, blocks[0][1]).reshape(tensor.shape)
    parts = [(where, read_matrix(memory, matrix)) for where, matrix in blocks]
    whole = np.empty((tensor.rows, tensor.cols), dtype=parts[0][1].dtype)
    for where, part in parts:
        whole[where] = part
    return whole.reshape(tensor.shape)
