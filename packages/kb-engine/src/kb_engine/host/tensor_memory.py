"""The host's tensors: cut up, put into memories, and known until they are freed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from kb_engine.engine.engine import Engine
from kb_engine.host.memories import Memories, space_named
from kb_engine.host.sharding import Layout, Sharding, block_bounds, layout, sharding_of
from kb_engine.memory.allocator import OutOfMemoryError
from kb_engine.program.tensors import BlockAddresses, Tensor
from kb_messages import DType, KernelError, Matrix, MemorySpace, split_address


class TensorMemory:
    """Allocates tensors and takes them back."""

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
        """As `Host.empty`."""
        dtype, space = DType(dtype), space_named(name, memory)
        if len(shape) not in (1, 2) or any(size < 1 for size in shape):
            raise KernelError(f"tensor {name}", f"shape {shape}", "one or two positive sizes")
        cut, homes = self._layout(name, space, blocks, slices, shard)
        rows, cols = (1, shape[0]) if len(shape) == 1 else shape
        if not (1 <= cut.down <= rows and 1 <= cut.along <= cols):
            raise _bad_cut(name, cut, rows, cols)
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
        """Give the memory of a live tensor back; its bytes are uninitialised from now on."""
        for _, matrix in tensor.every_block():
            self.memories.release(matrix.address)
            self.engine.memory.store.release(*split_address(matrix.address), 1, matrix.nbytes, matrix.nbytes)
        del self.live[tensor.addresses[0][0]]

    def check_live(self, what: str, tensor: Tensor) -> None:
        """Raise KernelError when *tensor* holds no memory any more."""
        if self.live.get(tensor.addresses[0][0]) != replace(tensor, virtual=()):
            raise KernelError(f"{what} of {tensor.name}", "a tensor after host.free", "one that holds memory")

    def check_pes(self, what: str, pes: Sequence[int] | None) -> Sequence[int]:
        """*pes*, or all. Raises KernelError for a number that no PE has, and for one that is there twice."""
        n_pes = len(self.engine.pes)
        wanted = range(n_pes) if pes is None else pes
        for number in wanted:
            if not 0 <= number < n_pes:
                raise KernelError(what, f"PE {number}", f"0 to {n_pes - 1}")
        if len(set(wanted)) != len(wanted):
            raise KernelError(what, f"PEs {list(wanted)}", "each at most once")
        return wanted

    def _layout(
        self,
        name: str,
        space: MemorySpace,
        blocks: tuple[int, int],
        slices: Sequence[int] | None,
        shard: Sharding | str | None,
    ) -> tuple[Layout, Sequence[int]]:
        """How the tensor is cut, and the number of the memory for each block of each copy in order."""
        if shard is None:
            return Layout(*blocks, 1, ()), self._homes(name, space, blocks[0] * blocks[1], slices)
        if blocks != (1, 1) or slices is not None:
            raise KernelError(f"tensor {name}", "shard and blocks or slices", "one of the two")
        return self._shard(name, space, sharding_of(name, shard))

    def _homes(self, name: str, space: MemorySpace, count: int, slices: Sequence[int] | None) -> Sequence[int]:
        available = self.memories.count(space)
        if not available:
            kind = f"{space.value.upper()}{' slice' if space is MemorySpace.HBM else ''}"
            raise OutOfMemoryError(
                f"tensor {name}", f"a topology without {space.value.upper()}", f"at least one {kind}"
            )
        if slices is None:
            return [number * available // count for number in range(count)]
        if len(slices) != count or not all(0 <= number < available for number in slices):
            raise KernelError(
                f"tensor {name}",
                f"slices {list(slices)}",
                f"a number from 0 to {available - 1} for each of {count} blocks",
            )
        return slices

    def _shard(self, name: str, space: MemorySpace, sharding: Sharding) -> tuple[Layout, list[int]]:
        owners = self.check_pes(f"tensor {name}", sharding.owners)
        cut = layout(name, sharding, [self.memories.places[owner] for owner in owners])
        home = {shard: self.memories.near(space, owner) for shard, owner in zip(cut.shards, owners, strict=True)}
        return cut, [home[shard] for shard in sorted(home)]

    def _allocate(self, name: str, space: MemorySpace, homes: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """An address for each block, all or none."""
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
    """The addresses of each copy, as rows of blocks."""
    rows = [tuple(addresses[start : start + cut.along]) for start in range(0, len(addresses), cut.along)]
    return tuple(tuple(rows[start : start + cut.down]) for start in range(0, len(rows), cut.down))


def _bad_cut(name: str, cut: Layout, rows: int, cols: int) -> KernelError:
    where = f"tensor {name}"
    if cut.shards:
        got = f"{len(cut.shards)} shards, {cut.down} x {cut.along} blocks of {rows} x {cols}"
        fix = "cut the other way, name fewer `owners`, or use 'replica' at a level"
        return KernelError(where, got, "at most one per row, column", fix)
    return KernelError(where, f"{cut.down} x {cut.along} blocks of {rows} x {cols}", "1 up to one per row, column")
