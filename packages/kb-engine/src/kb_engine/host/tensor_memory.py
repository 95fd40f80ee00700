"""TensorMemory: allocates the tensors of the host, and knows them until they are freed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from kb_engine.engine.engine import Engine
from kb_engine.host.homes import choose_homes
from kb_engine.host.memories import Memories, space_named
from kb_engine.host.sharding import Layout, Sharding, block_bounds
from kb_engine.memory.allocator import OutOfMemoryError
from kb_engine.program.tensors import BlockAddresses, Tensor
from kb_messages import DType, KernelError, Matrix, MemorySpace, split_address


class TensorMemory:
    """The live tensors of one chip, by the address of their first block."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.memories = Memories(engine.topology, list(engine.pes.values()))
        self.live: dict[int, Tensor] = {}

    def empty(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType | str,
        blocks: tuple[int, int],
        slices: Sequence[int] | None,
        memory: str,
        shard: Sharding | str | None,
    ) -> Tensor:
        """Allocate a tensor, as `Host.empty` says."""
        dtype, space = DType(dtype), space_named(name, memory)
        if len(shape) not in (1, 2) or any(size < 1 for size in shape):
            raise KernelError(f"tensor {name}", f"shape {shape}", "one or two positive sizes")
        rows, cols = (1, shape[0]) if len(shape) == 1 else shape
        cut, homes = choose_homes(self.memories, name, space, (rows, cols), blocks, slices, shard)
        row_bounds, col_bounds = block_bounds(rows, cut.down), block_bounds(cols, cut.along)
        sizes = [
            (bottom - top) * (right - left) * dtype.nbytes
            for top, bottom in pairwise(row_bounds)
            for left, right in pairwise(col_bounds)
        ]
        grids = _grids(self._allocate(name, space, homes, sizes * cut.copies), cut)
        tensor = Tensor(
            name=name,
            shape=shape,
            dtype=dtype,
            row_bounds=row_bounds,
            col_bounds=col_bounds,
            addresses=grids[0],
            copies=grids[1:],
            shards=cut.shards,
        )
        self.live[tensor.addresses[0][0]] = tensor
        return tensor

    def free(self, tensor: Tensor) -> None:
        """Give the memory of a live tensor back. Its bytes are uninitialised from now on."""
        for _, matrix in tensor.every_block():
            self.memories.release(matrix.address)
            self.engine.memory.store.release(*split_address(matrix.address), 1, matrix.nbytes, matrix.nbytes)
        del self.live[tensor.addresses[0][0]]

    def check_live(self, what: str, tensor: Tensor) -> None:
        """Raise KernelError, which names *what*, when *tensor* holds no memory any more."""
        if self.live.get(tensor.addresses[0][0]) != replace(tensor, virtual=()):
            raise KernelError(f"{what} of {tensor.name}", "a tensor after host.free", "one that holds memory")

    def _allocate(self, name: str, space: MemorySpace, homes: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """An address for each block. When one memory is full, nothing is allocated."""
        memory, addresses = self.engine.memory, list[int]()
        try:
            for home, nbytes in zip(homes, sizes, strict=True):
                addresses.append(self.memories.allocate(space, home, nbytes, name))
        except OutOfMemoryError:
            for address in addresses:
                self.memories.release(address)
            raise
        for address, nbytes in zip(addresses, sizes, strict=True):
            memory.pending.clear(Matrix.packed(1, nbytes, DType.I8, address))
            memory.store.reserve(*split_address(address), nbytes)
        return addresses


def _grids(addresses: Sequence[int], cut: Layout) -> tuple[BlockAddresses, ...]:
    """The addresses of the blocks of each copy, as rows of blocks."""
    rows = [tuple(addresses[start : start + cut.along]) for start in range(0, len(addresses), cut.along)]
    return tuple(tuple(rows[start : start + cut.down]) for start in range(0, len(rows), cut.down))
