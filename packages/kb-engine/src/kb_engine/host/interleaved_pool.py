"""InterleavedPool: hands out interleaved bytes of a cube's HBM, which it takes from the ends of all slices as it needs.

A byte of a slice has an address in the slice and one in an interleaved region. Slices are filled from their begin, and
interleaved regions from their end, so that the two meet only when the memory is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm

from kb_engine.memory.allocator import Allocator
from kb_messages import split_address
from kb_topology import InterleavedRegion


class _Part:
    """A region, of whose bytes those from `bottom` on are the pool's."""

    def __init__(self, region: InterleavedRegion, alignment: int) -> None:
        self.region = region
        self.bottom = self.end = region.base + region.nbytes
        self.allocator = Allocator(region.node_id, region.base, 0, alignment)

    @property
    def nbytes(self) -> int:
        """The bytes that are the pool's."""
        return self.end - self.bottom

    def grow(self, bottom: int) -> None:
        """The bytes from *bottom* on are the pool's from now on."""
        self.allocator.add(bottom, self.bottom - bottom)
        self.bottom = bottom

    def empty(self) -> None:
        """No byte is the pool's any more. None is taken."""
        self.allocator.give_up_end(self.nbytes)
        self.bottom = self.end


class InterleavedPool:
    """The interleaved bytes of one cube, whose `regions` lie over *slices*: an allocator for each slice, by owner.

    Ranges begin at multiples of *alignment* bytes. What is free at the bottom goes back to the slices.
    """

    def __init__(self, regions: Sequence[InterleavedRegion], slices: Mapping[int, Allocator], alignment: int) -> None:
        self.regions = regions
        self.owners = {region.owner for region in regions}
        self._slices = [slices[split_address(base)[0]] for base in regions[0].slices]
        self._unit = lcm(regions[0].interleaving.round_nbytes, alignment)
        self._parts = [_Part(region, alignment) for region in regions]

    def allocate(self, nbytes: int, holder: str) -> int:
        """The address of *nbytes* free bytes. Raises OutOfMemoryError as an Allocator does."""
        for part in reversed(self._parts):
            if part.allocator.has_room(nbytes) or self._grow(part, nbytes):
                return part.allocator.allocate(nbytes, holder)
        return self._parts[0].allocator.allocate(nbytes, holder)

    def release(self, address: int) -> None:
        """Give back the bytes that `allocate` put at *address*."""
        next(part for part in self._parts if part.region.owner == split_address(address)[0]).allocator.release(address)
        for part in self._parts:
            if part.nbytes and not self._shrink(part):
                return

    def _grow(self, part: _Part, nbytes: int) -> bool:
        """Take room for *nbytes* from the slices, if they have it at their ends."""
        base = part.region.base
        bottom = max(base, base + (part.bottom - base - nbytes) // self._unit * self._unit)
        each = (part.bottom - bottom) // len(self._slices)
        if not each or not all(allocator.is_end_free(each) for allocator in self._slices):
            return False
        for allocator in self._slices:
            allocator.give_up_end(each)
        part.grow(bottom)
        return part.allocator.has_room(nbytes)

    def _shrink(self, part: _Part) -> bool:
        """Give the bytes of *part* back to the slices if none of them is taken. Returns whether none was."""
        if part.allocator.free_nbytes < part.nbytes:
            return False
        for allocator in self._slices:
            allocator.add(allocator.end, part.nbytes // len(self._slices))
        part.empty()
        return True
