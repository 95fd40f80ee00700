"""InterleavedPool: allocates bytes of an interleaved memory, which it takes from the slices when it needs them.

A byte of a slice has an address in the slice and one in an interleaved region. The pool takes the same bytes of all
slices, bytes that are free in each of them, the highest first. Slices are filled from their begin. So several pools can
share slices, and a byte has one holder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import TypeAlias

from kb_engine.memory.allocator import Allocator, OutOfMemoryError, out_of_memory
from kb_messages import split_address
from kb_topology import InterleavedRegion

_Ranges: TypeAlias = list[tuple[int, int]]
"""Ranges (first, end), in ascending order."""


class _Part:
    """A region over *slices*, and the ranges of its bytes that belong to the pool."""

    def __init__(self, region: InterleavedRegion, slices: Sequence[Allocator], alignment: int) -> None:
        self.region = region
        self.slices = slices
        self._alignment = alignment
        self._unit = lcm(region.interleaving.round_nbytes, alignment)
        self._taken: _Ranges = []
        self.allocator = Allocator(region.node_id, region.base, 0, alignment)

    def grow(self, nbytes: int) -> bool:
        """Takes room for *nbytes* from the slices, if they have it. Bytes of the pool that are free count as room."""
        free = self._free_everywhere()
        for low, high in reversed(free):
            start = (high - nbytes) // self._unit * self._unit
            if start >= low:
                self._take(start, high)
                return True
        for low, high in reversed(self._reachable(free)):
            if high - low >= self.allocator.rounded(nbytes):
                for start, end in free:
                    if low <= start < high:
                        self._take(start, end)
                return True
        return False

    def free_ranges(self) -> _Ranges:
        """The ranges that an allocation may take: bytes that are free in all slices, and free bytes of the pool."""
        return self._reachable(self._free_everywhere())

    def shrink(self) -> None:
        """Gives the bytes back to the slices if none of them is allocated."""
        if self.allocator.free_nbytes < sum(high - low for low, high in self._taken):
            return
        for low, high in self._taken:
            for allocator, start, nbytes in self._in_slices(low, high):
                allocator.add(start, nbytes)
        self._taken.clear()
        self.allocator = Allocator(self.region.node_id, self.region.base, 0, self._alignment)

    def _take(self, low: int, high: int) -> None:
        for allocator, start, nbytes in self._in_slices(low, high):
            allocator.give_up(start, nbytes)
        self._taken.append((low, high))
        self.allocator.add(self.region.base + low, high - low)

    def _in_slices(self, low: int, high: int) -> Iterator[tuple[Allocator, int, int]]:
        """The allocator, the address and the bytes in each slice of the region's bytes from *low* to *high*."""
        count = len(self.slices)
        for allocator, base in zip(self.slices, self.region.slices, strict=True):
            yield allocator, base + low // count, (high - low) // count

    def _free_everywhere(self) -> _Ranges:
        """The ranges of the region, whole units, that are free in all slices."""
        count, found = len(self.slices), [(0, self.region.nbytes)]
        for allocator, base in zip(self.slices, self.region.slices, strict=True):
            free = [((low - base) * count, (high - base) * count) for low, high in allocator.free_ranges()]
            found = [
                (max(low, start), min(high, end)) for low, high in found for start, end in free if low < end > start
            ]
            found = [(low, high) for low, high in found if low < high]
        units = [(-(-low // self._unit) * self._unit, self._down(high)) for low, high in found]
        return [(low, high) for low, high in units if low < high]

    def _down(self, end: int) -> int:
        """*end* rounded down to a whole unit; the end of the region counts as whole."""
        return end if end == self.region.nbytes else end // self._unit * self._unit

    def _reachable(self, free: _Ranges) -> _Ranges:
        """The ranges *free* in all slices, joined with the free ranges of the pool."""
        base = self.region.base
        return _joined([*free, *((low - base, high - base) for low, high in self.allocator.free_ranges())])


class InterleavedPool:
    """The bytes of one interleaved memory, whose `regions` lie over *slices*: an allocator for each slice, by owner.

    Ranges begin at multiples of *alignment* bytes. A region without allocations goes back to the slices.
    """

    def __init__(self, regions: Sequence[InterleavedRegion], slices: Mapping[int, Allocator], alignment: int) -> None:
        self.regions = regions
        self.owners = {region.owner for region in regions}
        self._parts = [
            _Part(region, [slices[split_address(base)[0]] for base in region.slices], alignment) for region in regions
        ]

    def allocate(self, nbytes: int, holder: str) -> int:
        """Allocates *nbytes* that are free in all slices, and returns their address.

        Raises OutOfMemoryError when there is no room for *holder*.
        """
        for part in reversed(self._parts):
            if part.allocator.has_room(nbytes) or part.grow(nbytes):
                return part.allocator.allocate(nbytes, holder)
        raise self._full(nbytes)

    def release(self, address: int) -> None:
        """Frees the bytes that `allocate` allocated at *address*."""
        part = next(part for part in self._parts if part.region.owner == split_address(address)[0])
        part.allocator.release(address)
        part.shrink()

    def _full(self, nbytes: int) -> OutOfMemoryError:
        sizes = [high - low for part in self._parts for low, high in part.free_ranges()]
        total = sum(region.nbytes for region in self.regions)
        held = Counter[str]()
        for allocator in (*(part.allocator for part in self._parts), *self._parts[0].slices):
            held.update(allocator.held())
        got, limit = f"a request for {nbytes} bytes", max(sizes, default=0)
        return out_of_memory(self.regions[0].memory, got, limit, (sum(sizes), total), held)


def _joined(ranges: _Ranges) -> _Ranges:
    """*ranges*, where ranges that touch are joined."""
    found: _Ranges = []
    for low, high in sorted(ranges):
        if found and found[-1][1] == low:
            found[-1] = found[-1][0], high
        else:
            found.append((low, high))
    return found
