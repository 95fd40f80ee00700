"""Sharding: how a tensor is cut up, or copied, over SIPs, cubes and PEs. Pure: which part each owner has, not where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from kb_messages import KernelError

Cut = Literal["row", "column", "replica"]


class Sharding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At each level the tensor's rows are cut (`row`), its columns (`column`), or each owner has all (`replica`).

    A cube's part is cut over its PEs as a SIP's is over its cubes. Parts differ by at most one row or column. `owners`
    are the numbers of the PEs that get a shard, shard 0 the first of them; left out, all PEs in order.
    """

    sips: Cut = "row"
    cubes: Cut = "row"
    pes: Cut = "row"
    owners: tuple[int, ...] | None = None


class Shard(NamedTuple):
    """Copy `copy` of the block in row `i` and column `j` of the grid that the tensor is cut into."""

    copy: int
    i: int
    j: int


class Layout(NamedTuple):
    """A grid of `down x along` blocks, `copies` times, and the block that each owner has."""

    down: int
    along: int
    copies: int
    shards: tuple[Shard, ...]


def layout(name: str, sharding: Sharding, places: Sequence[tuple[int, int]]) -> Layout:
    """The layout of tensor *name* over owners in these *places*, the SIP and cube of each.

    Raises KernelError unless all SIPs have equally many owning cubes, and all cubes equally many owning PEs.
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
    """*shard*, or the one that cuts alike at all levels. Raises KernelError for a cut there is none of."""
    if isinstance(shard, Sharding):
        cuts: Sequence[str] = (shard.sips, shard.cubes, shard.pes)
    else:
        cuts = (shard,)
    for cut in cuts:
        if cut not in ("row", "column", "replica"):
            raise KernelError(f"tensor {name}", f"shard={cut!r}", "'row', 'column' or 'replica'")
    if isinstance(shard, Sharding):
        return shard
    return Sharding(sips=shard, cubes=shard, pes=shard)  # type: ignore[arg-type]  # checked above


def _coordinates(
    name: str, places: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int, int]], tuple[int, int, int]]:
    """Of each owner the number of its SIP, of its cube there, and its own in the cube; and how many there are."""
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


def block_bounds(size: int, count: int) -> tuple[int, ...]:
    """Where each of *count* blocks begins, and *size* at the end; sizes differ by at most one."""
    return tuple(number * size // count for number in range(count + 1))
