"""The memory of each block of a tensor: the named slice, one of an even spread, or the memory near the owning PE."""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.host.memories import Memories
from kb_engine.host.sharding import Layout, Sharding, layout, near_copies, sharding_of
from kb_engine.memory.allocator import OutOfMemoryError
from kb_messages import KernelError, MemorySpace


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

    *shape* is (rows, cols); the other arguments are those of `Host.empty`, and so are the errors.
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


def copy_of_each_pe(memories: Memories, name: str, shard: Sharding | str, cut: Layout) -> list[int]:
    """For each PE, the number of the copy that it takes for tensor *name*, whose layout is *cut*."""
    owners = memories.check_pes(f"tensor {name}", sharding_of(name, shard).owners)
    return near_copies(cut, owners, memories.places)


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
