"""Memories: the memories for tensors of the host: HBM slices, SRAMs and TCMs, each with an allocator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import SupportsIndex

from kb_engine.host.interleaved_pool import InterleavedPool
from kb_engine.memory.allocator import Allocator, OutOfMemoryError
from kb_engine.program.pe import ProcessingElement
from kb_messages import KernelError, MemorySpace, split_address
from kb_topology import InterleavedRegion, Node, Topology

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
        self._pools = [pool for pool in pools.values() if not pool.regions[0].is_named]
        self._named = {name: pool for name, pool in pools.items() if pool.regions[0].is_named}
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
        if not all(issubclass(each, SupportsIndex) for each in types):
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

    @property
    def n_pools(self) -> int:
        """The number of cubes with interleaved bytes: all cubes of a chip, or none."""
        return len(self._pools)

    @property
    def interleaved_names(self) -> Sequence[str]:
        """The names of the sets of slices that the chip interleaves."""
        return list(self._named)

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
