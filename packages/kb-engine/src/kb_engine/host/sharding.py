"""Sharding: cuts or copies a tensor over SIPs, cubes and PEs. It determines the part of each PE, but no addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from kb_messages import KernelError

Cut = Literal["row", "column", "replica"]


class Sharding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How each level cuts its part of the tensor: by rows, by columns, or not at all (`replica`, one copy each).

    `sips` cuts the tensor over the SIPs, `cubes` the part of a SIP over its cubes, and `pes` the part of a cube over
    its PEs. The sizes of parts differ by at most one row or column. `owners` holds the numbers of the PEs that get a
    shard, in the order of the shards; by default all PEs.
    """

    sips: Cut = "row"
    cubes: Cut = "row"
    pes: Cut = "row"
    owners: tuple[int, ...] | None = None


class Shard(NamedTuple):
    """The block in row `i` and column `j` of the grid of blocks, in copy number `copy`."""

    copy: int
    i: int
    j: int


class Layout(NamedTuple):
    """A grid of `down x along` blocks in `copies` copies. `shards` holds the block of each owner."""

    down: int
    along: int
    copies: int
    shards: tuple[Shard, ...]


def layout(name: str, sharding: Sharding, places: Sequence[tuple[int, int]]) -> Layout:
    """The layout of tensor *name* over its owners. *places* holds the SIP and cube of each owner.

    Raises KernelError unless each SIP has the same number of owning cubes, and each cube the same number of owners.
    """
    coordinates, counts = _coordinates(name, places)
    cuts = (sharding.sips, sharding.cubes, sharding.pes)
    sizes = dict.fromkeys(("row", "column", "replica"), 1)
    for cut, count in zip(cuts, counts, strict=True):
        sizes[cut] *= count
    shards = []
    for coordinate in coordinates:
        index = dict.fromkeys(sizes, 0)
        for cut, count, at in zip(cuts, counts, coordinate, strict=True):
            index[cut] = index[cut] * count + at
        shards.append(Shard(index["replica"], index["row"], index["column"]))
    return Layout(sizes["row"], sizes["column"], sizes["replica"], tuple(shards))


def sharding_of(name: str, shard: Sharding | str) -> Sharding:
    """*shard* as a Sharding. A word stands for the same cut at all levels. Raises KernelError for an unknown cut."""
    for cut in (shard.sips, shard.cubes, shard.pes) if isinstance(shard, Sharding) else (shard,):
        if cut not in ("row", "column", "replica"):
            raise KernelError(f"tensor {name}", f"shard={cut!r}", "'row', 'column' or 'replica'")
    if isinstance(shard, Sharding):
        return shard
    return Sharding(sips=shard, cubes=shard, pes=shard)  # type: ignore[arg-type]  # checked above


def _coordinates(
    name: str, places: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int, int]], tuple[int, int, int]]:
    """The coordinates of each owner (SIP, cube in the SIP, PE in the cube), counted among owners, and the counts."""
    members: dict[int, dict[int, int]] = {}
    found = []
    for sip, cube in places:
        cubes = members.setdefault(sip, {})
        cubes[cube] = cubes.get(cube, 0) + 1
        found.append((list(members).index(sip), list(cubes).index(cube), cubes[cube] - 1))
    cubes_each = {len(cubes) for cubes in members.values()}
    pes_each = {count for cubes in members.values() for count in cubes.values()}
    if len(cubes_each) != 1 or len(pes_each) != 1:
        counts = ", ".join(
            f"{count} of sip{sip}.cube{cube}" for sip, cubes in members.items() for cube, count in cubes.items()
        )
        raise KernelError(
            f"tensor {name}",
            f"owners that are {counts or 'none'}",
            "equally many PEs of each cube and cubes of each SIP",
            "name other owners",
        )
    return found, (len(members), cubes_each.pop(), pes_each.pop())


def near_copies(cut: Layout, owners: Sequence[int], places: Sequence[tuple[int, int]]) -> list[int]:
    """For each PE, the number of the copy of the tensor that it uses. *places* holds the SIP and cube of each PE.

    An owner uses the copy of its shard. Another PE uses the copy of the first owner in its cube, else in its SIP, else
    the first copy.
    """
    copies: dict[object, int] = {}
    for shard, owner in zip(cut.shards, owners, strict=True):
        sip, cube = places[owner]
        for place in (owner, (sip, cube), (sip,)):
            copies.setdefault(place, shard.copy)
    return [
        next((copies[place] for place in (pe, (sip, cube), (sip,)) if place in copies), 0)
        for pe, (sip, cube) in enumerate(places)
    ]


def block_bounds(size: int, count: int) -> tuple[int, ...]:
    """The begin of each of *count* blocks, and *size* at the end. The sizes of the blocks differ by at most one."""
    return tuple(number * size // count for number in range(count + 1))
