"""Memories: the memories for tensors of the host: HBM slices, SRAMs and TCMs, each with an allocator.

A byte of a slice has an address in the slice and may have one in an interleaved region. A pool of interleaved bytes
takes them from the slices when it needs them: the same bytes of all slices, bytes that are free in each of them, the
highest first. Slices are filled from their begin. So several pools can share slices, and a byte has one holder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import lcm
from typing import SupportsIndex, TypeAlias

from kb_engine.memory.allocator import Allocator, OutOfMemoryError, out_of_memory
from kb_engine.program.pe import ProcessingElement
from kb_messages import KernelError, MemorySpace, split_address
from kb_topology import InterleavedRegion, Node, Topology

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


_SPACES = (MemorySpace.HBM, MemorySpace.SRAM, MemorySpace.TCM)


class Memories:
    """The memories of each space, numbered in the topology's order. A TCM has the number of its PE.

    In a TCM, tensors share an allocator with kernels, and get bytes that no tile buffer uses. On chips whose PEs have
    MMUs, HBM and SRAM are allocated in whole pages, so that any tensor there can be mapped.
    """

    def __init__(self, topology: Topology, pes: Sequence[ProcessingElement]) -> None:
        page_nbytes = max((pe.mmu.page_nbytes for pe in pes if pe.mmu is not None), default=64)
        nodes = topology.graph.nodes
        self._allocators: dict[MemorySpace, list[Allocator]] = {space: [] for space in _SPACES}
        self._in_cube: dict[tuple[MemorySpace, int, int], list[int]] = {}
        self._by_owner: dict[int, Allocator] = {pe.tcm_owner: pe.tcm for pe in pes}
        for region in topology.address_map.regions:
            if region.space in (MemorySpace.HBM, MemorySpace.SRAM):
                allocator = Allocator(region.node_id, region.base, region.nbytes, page_nbytes)
                node = nodes[region.node_id]
                self._in_cube.setdefault((region.space, *_place(node)), []).append(self.count(region.space))
                self._allocators[region.space].append(allocator)
                self._by_owner[region.owner] = allocator
        self._allocators[MemorySpace.TCM] = [pe.tcm for pe in pes]
        pools = _pools(topology, self._by_owner, page_nbytes)
        self._pools = [pool for pool in pools.values() if pool.regions[0].is_of_cube]
        self._named = {name: pool for name, pool in pools.items() if not pool.regions[0].is_of_cube}
        self.n_pools = len(self._pools)
        """The number of cubes with interleaved bytes: all cubes of a chip, or none."""
        self.interleaved_names = list(self._named)
        """The names of the sets of slices that the chip interleaves, and of its SIPs, such as `sip0.hbm`."""
        self.default_name = topology.address_map.default_memory
        """The interleaved memory for tensors that name no memory, if the chip has one."""
        self.places: list[tuple[int, int]] = []
        """The SIP and cube of each PE."""
        self._rank: list[int] = []
        self._pes_in_cube: dict[tuple[int, int], int] = {}
        for pe in pes:
            place = _place(topology.graph.pe_nodes(pe.pe_id)[0])
            self.places.append(place)
            self._rank.append(self._pes_in_cube.get(place, 0))
            self._pes_in_cube[place] = self._rank[-1] + 1

    def check_pes(self, where: str, pes: Sequence[int] | None) -> Sequence[int]:
        """Checks and returns *pes*, by default all PEs.

        Raises KernelError at *where* for missing and repeated PEs, and for anything but numbers of PEs.
        """
        n_pes = len(self.places)
        if isinstance(pes, int):
            raise KernelError(where, f"pes={pes}", "a list of PE numbers", f"write `pes=[{pes}]`")
        wanted = range(n_pes) if pes is None else pes
        found: object = wanted  # a script's types are not checked
        types = set(map(type, found)) if isinstance(found, Collection) else {type(None)}
        if bool in types or not all(issubclass(each, SupportsIndex) for each in types):
            raise KernelError(where, f"pes={pes!r}", f"a list of PE numbers, 0 to {n_pes - 1}")
        for number in wanted:
            if not 0 <= number < n_pes:
                raise KernelError(where, f"PE {number}", f"0 to {n_pes - 1}")
        if len(set(wanted)) != len(wanted):
            raise KernelError(where, f"PEs {list(wanted)}", "each at most once")
        return wanted

    def count(self, space: MemorySpace) -> int:
        """The number of memories of *space*."""
        return len(self._allocators[space])

    def near(self, space: MemorySpace, pe: int) -> int:
        """The number of the memory of *space* near PE number *pe*, in the same cube.

        In a cube with at least as many memories as PEs, PE i of the cube has memory i. In a cube with fewer memories,
        neighbouring PEs share a memory. Raises OutOfMemoryError for a cube without memories of *space*.
        """
        if space is MemorySpace.TCM:
            return pe
        sip, cube = self.places[pe]
        found = self._in_cube.get((space, sip, cube))
        if not found:
            raise OutOfMemoryError(f"sip{sip}.cube{cube}", f"a cube without {space.value.upper()}", "some")
        rank, n_pes = self._rank[pe], self._pes_in_cube[sip, cube]
        return found[rank if len(found) >= n_pes else rank * len(found) // n_pes]

    def home(self, pe: int) -> int:
        """The first address of the HBM, or without HBM of the SRAM, near PE number *pe*. Raises OutOfMemoryError."""
        spaces = [each for each in (MemorySpace.HBM, MemorySpace.SRAM) if self.count(each)] or [MemorySpace.HBM]
        return self._allocators[spaces[0]][self.near(spaces[0], pe)].base

    def in_turn(self, number: int) -> int:
        """The number of the HBM slice that tensor *number* gets among the tensors without a place.

        The cubes of the first SIP take them in turn, and so do the slices of each cube.
        """
        places = [(sip, found) for (space, sip, _), found in self._in_cube.items() if space is MemorySpace.HBM]
        cubes = [found for sip, found in places if sip == places[0][0]]
        of_cube = cubes[number % len(cubes)]
        return of_cube[number // len(cubes) % len(of_cube)]

    def allocate(self, space: MemorySpace, number: int, nbytes: int, name: str) -> int:
        """Allocates *nbytes* for tensor *name* in memory *number*, and returns the address.

        Raises OutOfMemoryError, which names the tensor and the memory.
        """
        allocator = self._allocators[space][number]
        try:
            return allocator.allocate(nbytes, name)
        except OutOfMemoryError as error:
            fix = self._spread() if space is MemorySpace.HBM and nbytes > allocator.nbytes else error.fix
            raise OutOfMemoryError(f"tensor {name} in {error.where}", error.got, error.needs, fix) from None

    def _spread(self) -> str:
        """The fix of the error about a tensor that is larger than any slice."""
        sets = "".join(f", or lay it over slices with memory={each!r}" for each in self._named)
        return f"cut it into `blocks` for several slices{sets}"

    def allocate_interleaved(self, memory: int | str, nbytes: int, name: str) -> int:
        """Allocates *nbytes* for tensor *name* over the HBM slices of a cube, by its number, or over a named set.

        Raises as `allocate` does.
        """
        pool = self._pools[memory] if isinstance(memory, int) else self._named[memory]
        try:
            return pool.allocate(nbytes, name)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"tensor {name} in {error.where}", error.got, error.needs, error.fix) from None

    def release(self, address: int) -> None:
        """Frees the bytes that were allocated at *address*."""
        owner, _ = split_address(address)
        pool = next((each for each in (*self._pools, *self._named.values()) if owner in each.owners), None)
        (pool or self._by_owner[owner]).release(address)


def _pools(topology: Topology, slices: Mapping[int, Allocator], alignment: int) -> dict[str, InterleavedPool]:
    """The interleaved memories by name, in the topology's order."""
    regions: dict[str, list[InterleavedRegion]] = {}
    for region in topology.address_map.interleaved.values():
        regions.setdefault(region.memory, []).append(region)
    return {name: InterleavedPool(each, slices, alignment) for name, each in regions.items()}


def _place(node: Node) -> tuple[int, int]:
    """The SIP and cube of *node*, which is in a cube."""
    assert node.sip is not None
    assert node.cube is not None
    return node.sip, node.cube


def space_named(tensor: str, memory: str, others: Sequence[str] = ()) -> MemorySpace:
    """The space that *memory* names.

    Raises KernelError, which names *tensor*, for a space that holds no tensors. The error also lists *others*, the sets
    of slices.
    """
    if memory not in _SPACES:
        known = " or ".join(repr(each) for each in (*(space.value for space in _SPACES), *others))
        raise KernelError(f"tensor {tensor}", f"memory={memory!r}", known)
    return MemorySpace(memory)
