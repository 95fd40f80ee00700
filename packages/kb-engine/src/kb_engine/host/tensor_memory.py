"""TensorMemory: allocates the tensors of the host, and lists them until they are freed.

The memory of each block is a named slice, one of an even spread, or the memory near the owning PE.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from msgspec.structs import replace

from kb_engine.engine.engine import Engine
from kb_engine.host.memories import Memories, space_named
from kb_engine.host.sharding import Layout, Sharding, block_bounds, layout, near_copies, sharding_of
from kb_engine.host.virtual_memory import Mappings, batched
from kb_engine.memory.allocator import OutOfMemoryError
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.tensors import Tensor
from kb_messages import DType, KernelError, Matrix, MemorySpace, split_address


def choose_homes(
    memories: Memories,
    name: str,
    space: MemorySpace,
    shape: tuple[int, int],
    blocks: tuple[int, int],
    slices: Sequence[int] | None,
    shard: Sharding | str | None,
) -> tuple[Layout, Sequence[int]]:
    """The layout of tensor *name*, and the number of the memory for each block of each copy, in order.

    *shape* is (rows, cols). `Host.empty` describes the other arguments and the errors.
    """
    if shard is None:
        cut = Layout(*blocks, 1, ())
        homes = _named_or_spread(memories, name, space, blocks[0] * blocks[1], slices)
    elif blocks != (1, 1) or slices is not None:
        raise KernelError(f"tensor {name}", "shard and blocks or slices", "one of the two")
    else:
        cut, homes = _near_owners(memories, name, space, sharding_of(name, shard))
    rows, cols = shape
    if not (1 <= cut.down <= rows and 1 <= cut.along <= cols):
        raise _bad_cut(name, cut, rows, cols)
    return cut, homes


def _named_or_spread(
    memories: Memories, name: str, space: MemorySpace, count: int, slices: Sequence[int] | None
) -> Sequence[int]:
    """The memories in *slices*, by default all memories of *space* with equal numbers of blocks."""
    available = memories.count(space)
    if not available:
        kind = f"{space.value.upper()}{' slice' if space is MemorySpace.HBM else ''}"
        raise OutOfMemoryError(f"tensor {name}", f"a topology without {space.value.upper()}", f"at least one {kind}")
    if slices is None:
        return [number * available // count for number in range(count)]
    if len(slices) != count or not all(0 <= number < available for number in slices):
        raise KernelError(
            f"tensor {name}",
            f"slices {list(slices)}",
            f"a number from 0 to {available - 1} for each of {count} blocks",
        )
    return slices


def _near_owners(memories: Memories, name: str, space: MemorySpace, sharding: Sharding) -> tuple[Layout, Sequence[int]]:
    """The layout of *sharding*, and for each block the memory near the PE that owns it."""
    owners = memories.check_pes(f"tensor {name}", sharding.owners)
    cut = layout(name, sharding, [memories.places[owner] for owner in owners])
    home = {shard: memories.near(space, owner) for shard, owner in zip(cut.shards, owners, strict=True)}
    return cut, [home[shard] for shard in sorted(home)]


def _bad_cut(name: str, cut: Layout, rows: int, cols: int) -> KernelError:
    where = f"tensor {name}"
    if cut.shards:
        got = f"{len(cut.shards)} shards, {cut.down} x {cut.along} blocks of {rows} x {cols}"
        fix = "cut the other way, name fewer `owners`, or use 'replica' at a level"
        return KernelError(where, got, "at most one per row, column", fix)
    return KernelError(where, f"{cut.down} x {cut.along} blocks of {rows} x {cols}", "1 up to one per row, column")


class TensorMemory:
    """The live tensors of one chip, by the address of their first block. All hosts of the chip share one object."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.memories = Memories(engine.topology, list(engine.pes.values()))
        self.mappings = Mappings()
        self.live: dict[int, Tensor] = {}
        self._unplaced: set[int] = set()
        self._n_unplaced = 0

    def is_unplaced(self, tensor: Tensor) -> bool:
        """Whether *tensor* lies where the host put it by default, because it was allocated without a place."""
        return tensor.addresses[0][0] in self._unplaced

    def empty(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType | str,
        blocks: tuple[int, int],
        slices: Sequence[int] | None,
        memory: str,
        shard: Sharding | str | None,
        cube: int | None,
    ) -> Tensor:
        """Allocates a tensor. `Host.empty` describes the arguments and the errors."""
        self._check_current("tensor", name)
        dtype, sets = DType(dtype), self.memories.interleaved_names
        if not shape or any(size < 1 for size in shape):
            raise KernelError(f"tensor {name}", f"shape {shape}", "positive sizes, at least one")
        is_cut = blocks != (1, 1) or slices is not None or shard is not None
        if memory in sets:
            if is_cut or cube is not None:
                got = f"memory={memory!r} with blocks, slices, shard or cube"
                raise KernelError(f"tensor {name}", got, "one of them: a tensor over a set of slices is flat")
            return self._interleaved(name, shape, dtype, memory)
        space = space_named(name, memory, sets)
        rows, cols = sides_of(shape)
        is_named = is_cut or space is not MemorySpace.HBM
        if cube is not None:
            self._check_cube(name, cube, is_named)
        pool = self._default_pool(cube)
        if pool is not None and not is_named:
            tensor = self._interleaved(name, shape, dtype, pool)
            return self._without_place(tensor) if cube is None else tensor
        if not is_named and self.memories.count(space):
            slices = [self.memories.in_turn(self._n_unplaced)]
        cut, homes = choose_homes(self.memories, name, space, (rows, cols), blocks, slices, shard)
        row_bounds, col_bounds = block_bounds(rows, cut.down), block_bounds(cols, cut.along)
        sizes = [
            (bottom - top) * (right - left) * dtype.nbytes
            for top, bottom in pairwise(row_bounds)
            for left, right in pairwise(col_bounds)
        ]
        near: dict[str, int] = {}
        if shard is not None and cut.copies > 1:
            owners = self.memories.check_pes(f"tensor {name}", sharding_of(name, shard).owners)
            near = dict(zip(self.engine.pes, near_copies(cut, owners, self.memories.places), strict=True))
        rows_of_blocks = batched(self._allocate(name, space, homes, sizes * cut.copies), cut.along)
        grids = batched(rows_of_blocks, cut.down)
        tensor = Tensor(
            name=name,
            shape=shape,
            dtype=dtype,
            row_bounds=row_bounds,
            col_bounds=col_bounds,
            addresses=grids[0],
            copies=grids[1:],
            shards=cut.shards,
            near=near,
        )
        self.live[tensor.addresses[0][0]] = tensor
        return tensor if is_named else self._without_place(tensor)

    def _without_place(self, tensor: Tensor) -> Tensor:
        """Notes that *tensor* was allocated without a place."""
        self._unplaced.add(tensor.addresses[0][0])
        self._n_unplaced += 1
        return tensor

    def _default_pool(self, cube: int | None) -> int | str | None:
        """The interleaved memory of a tensor in HBM that names no slices: that of *cube*, else the chip's default.

        None on a chip that interleaves nothing.
        """
        if cube is None and self.memories.default_name is not None:
            return self.memories.default_name
        return cube or 0 if self.memories.n_pools else None

    def _check_cube(self, name: str, cube: int, is_named: bool) -> None:
        count = self.memories.n_pools
        if not count:
            fix = "set hbm_interleave_nbytes, or name `slices`"
            raise KernelError(f"tensor {name}", f"cube={cube} on a chip that interleaves no HBM", "no cube", fix)
        if is_named:
            got = f"cube={cube} with blocks, slices, shard or another memory"
            raise KernelError(f"tensor {name}", got, "one of them: a cube is for a flat tensor in HBM")
        if not 0 <= cube < count:
            raise KernelError(f"tensor {name}", f"cube={cube}", f"0 to {count - 1}")

    def _interleaved(self, name: str, shape: tuple[int, ...], dtype: DType, memory: int | str) -> Tensor:
        """Allocates a flat tensor in *memory*: the HBM slices of a cube, by its number, or a set of slices by name."""
        rows, cols = sides_of(shape)
        nbytes = rows * cols * dtype.nbytes
        address = self.memories.allocate_interleaved(memory, nbytes, name)
        self._reserve(address, nbytes)
        tensor = Tensor(
            name=name, shape=shape, dtype=dtype, row_bounds=(0, rows), col_bounds=(0, cols), addresses=((address,),)
        )
        self.live[address] = tensor
        return tensor

    def _reserve(self, address: int, nbytes: int) -> None:
        memory = self.engine.memory
        memory.pending.clear(Matrix.packed(1, nbytes, DType.I8, address))
        memory.store.reserve(*split_address(address), nbytes)

    @contextmanager
    def freed_at_an_error(self) -> Iterator[list[Tensor]]:
        """A context manager: an error or an interrupt within it frees the live tensors that were added to its list."""
        made: list[Tensor] = []
        try:
            yield made
        except BaseException:
            for each in made:
                self.free(each)
            raise

    def free(self, tensor: Tensor) -> None:
        """Frees the memory of a live tensor. Its bytes are uninitialised from now on."""
        for _, matrix in tensor.every_block():
            self.memories.release(matrix.address)
            self.engine.memory.store.release(*split_address(matrix.address), 1, matrix.nbytes, matrix.nbytes)
        del self.live[tensor.addresses[0][0]]
        self._unplaced.discard(tensor.addresses[0][0])

    def check_live(self, call: str, tensor: Tensor) -> None:
        """Raises KernelError, which names the *call*, when *tensor* belongs to another chip or was freed.

        A tensor and its result of `Host.map` share one `addresses` object. A tensor of another chip, or a freed tensor,
        may be equal to a live tensor, but its `addresses` is another object.
        """
        self._check_current(call, tensor.name)
        # `is` tells a tensor from an equal one that was allocated later at the same place.
        live = self.live.get(tensor.addresses[0][0])
        if live is None or live.addresses is not tensor.addresses or live != replace(tensor, virtual=(), read_only=""):
            got, needs = "a tensor after host.free, or of another chip", "one that holds memory of this chip"
            raise KernelError(f"{call} of {tensor.name}", got, needs)

    def _check_current(self, call: str, name: str) -> None:
        if self.engine.shared_by_hosts(TensorMemory) is not self:
            raise KernelError(f"{call} {name}", "a host from before Engine.rebase", "a new Host, and its tensors")

    def element_with(self, owner: int, offset: int) -> str | None:
        """`name[row, column]` of the element with byte *offset* of memory *owner*; None where no live tensor has it."""
        found = (tensor.element_with(owner, offset) for tensor in self.live.values())
        return next(filter(None, found), None)

    def _allocate(self, name: str, space: MemorySpace, homes: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Allocates each block, and returns the addresses. When one memory is full, nothing stays allocated."""
        addresses = list[int]()
        try:
            for home, nbytes in zip(homes, sizes, strict=True):
                addresses.append(self.memories.allocate(space, home, nbytes, name))
        except OutOfMemoryError:
            for address in addresses:
                self.memories.release(address)
            raise
        for address, nbytes in zip(addresses, sizes, strict=True):
            self._reserve(address, nbytes)
        return addresses
