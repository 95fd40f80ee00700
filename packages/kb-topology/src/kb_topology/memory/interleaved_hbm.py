"""Interleaved memories: addresses that run on from granule to granule over slices of HBM.

An interleaved memory is the HBM of one cube, the HBM of a SIP of several cubes, or a set of slices that the topology
names. It has one region or several, each with a range of every slice. Regions have the highest units of the cube of
the first slice, which slices do not use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, UnsetType

from kb_messages import Interleaving, MemorySpace, join_address, owner_of
from kb_topology.chip.endpoints import expand
from kb_topology.chip.graph import Graph, Node
from kb_topology.chip.limits import MAX_MEMORY_NBYTES, MAX_UNITS
from kb_topology.chip.spec import TopologySpec
from kb_topology.chip.templates import levels
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath


class MemoryRegion(Struct, frozen=True, kw_only=True, gc=False):
    """One memory: *nbytes* bytes from the address *base* on. *owner* is the base without its offset bits."""

    node_id: str
    owner: int
    base: int
    nbytes: int
    space: MemorySpace
    unit: int


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_SIP_GRANULE_NBYTES: Final = 4096
"""Bytes that follow each other in a slice, in the HBM of a SIP.

Source: assumed, a page. On one_sip, granules of 512 to 8192 bytes give times within 3 % of each other, and larger ones
leave slices of a small tensor out. Smaller ones make more requests of each transfer.
"""
_LAST_NBYTES: Final = 1 << 32
"""Most bytes of the last region of a cube.

Flat tensors are taken from there, and keep the addresses that they had when no region was larger.
"""


class InterleavedRegion(MemoryRegion, frozen=True, kw_only=True, gc=False):
    """`nbytes` bytes that lie over slices of HBM by the rule of `interleaving`. `node_id` is a name, and no node.

    `slices` holds one address for each slice: the address from which on the region lies in the slice. `memory` is the
    name that all regions of one interleaved memory share: `sip0.cube0.hbm`, `sip0.hbm`, or the name of the set of
    slices.
    """

    interleaving: Interleaving
    slices: tuple[int, ...]
    memory: str
    cubes: tuple[tuple[int, int], ...]
    """The SIP and the cube of every slice, each once."""

    @property
    def is_named(self) -> bool:
        """Whether the topology names the set of slices, rather than interleaving the HBM of every cube and SIP."""
        return "." not in self.memory

    @property
    def is_of_cube(self) -> bool:
        """Whether the region is of the HBM of one cube, on a chip that interleaves the HBM of every cube."""
        return not self.is_named and len(self.cubes) == 1

    @property
    def slice_nbytes(self) -> int:
        """Bytes that the region has in each slice."""
        return self.nbytes // len(self.slices)


class _Memory(Struct):
    """An interleaved memory, to be cut into regions.

    The last region has at most `last_nbytes`, and each other region at most MAX_MEMORY_NBYTES.
    """

    name: str
    slices: Sequence[MemoryRegion]
    granule_nbytes: int
    last_nbytes: int
    yaml_path: YamlPath


def interleaved_regions(
    by_owner: Mapping[int, MemoryRegion], graph: Graph, spec: TopologySpec, source: YamlSource
) -> list[InterleavedRegion]:
    """The regions of the named sets of slices, then the regions of all cubes, then those of SIPs of several cubes.

    The regions of one memory are in order.

    Raises TopologyError, at its place in *source*, for a memory of fewer than two slices, and for slices that are not
    copies of one node, do not hold whole granules, or leave no units for the regions.
    """
    of_cubes = list(_cubes(by_owner, graph, spec.hbm_interleave_nbytes))
    memories = [*_named(by_owner, graph, spec, source), *of_cubes, *_sips(of_cubes)]
    highest: dict[tuple[int, int], int] = {}
    used: dict[tuple[int, int], int] = {}
    for region in by_owner.values():
        if region.space is MemorySpace.HBM:
            place = _place(graph.nodes[region.node_id])
            used[place] = max(used.get(place, -1), region.unit)
    found: list[InterleavedRegion] = []
    for memory in memories:
        _check(memory, graph, source)
        cubes = tuple(dict.fromkeys(_place(graph.nodes[each.node_id]) for each in memory.slices))
        starts = _starts(memory)
        end = highest.get(cubes[0], MAX_UNITS)
        highest[cubes[0]] = first = end - len(starts)
        if first <= used[cubes[0]]:
            needs = f"at most {end - used[cubes[0]] - 1} regions more in sip{cubes[0][0]}.cube{cubes[0][1]}"
            raise source.error(memory.yaml_path, f"{len(starts)} regions", needs, "name fewer sets of slices")
        found += _regions(memory, cubes, first, starts)
    return found


def default_memory(spec: TopologySpec, regions: Sequence[InterleavedRegion]) -> str | None:
    """The name of the interleaved memory for flat tensors that name no memory: the default that *spec* states, else
    the HBM of the first SIP among *regions*. None where there is neither.
    """
    sets = {} if isinstance(spec.interleaved, UnsetType) else spec.interleaved
    stated = next((name for name, each in sets.items() if each.default), None)
    of_sips = (each.memory for each in regions if not each.is_named and not each.is_of_cube)
    return stated or next(of_sips, None)


def _named(
    by_owner: Mapping[int, MemoryRegion], graph: Graph, spec: TopologySpec, source: YamlSource
) -> Iterator[_Memory]:
    """The sets of slices that *spec* names."""
    if isinstance(spec.interleaved, UnsetType):
        return
    system, by_node = levels(spec), {region.node_id: region for region in by_owner.values()}
    defaults = [name for name, each in spec.interleaved.items() if each.default]
    if len(defaults) > 1 or (defaults and spec.hbm_interleave_nbytes):
        got = "a default memory beside " + (defaults[0] if len(defaults) > 1 else "hbm_interleave_nbytes")
        raise source.error(("interleaved", defaults[-1], "default"), got, "one default memory")
    for name, each in spec.interleaved.items():
        path = "interleaved", name
        if name in list(MemorySpace) or not _NAME.fullmatch(name):
            needs = "lower-case letters, digits and _, and not the name of a kind of memory"
            raise source.error(path, f"the name {name[:80]!r}", needs)
        fail = partial(source.error, (*path, "slices"))
        texts = [each.slices] if isinstance(each.slices, str) else each.slices
        nodes = [node_id for text in texts for node_id in expand(text, system, fail).names]
        for node_id in nodes:
            region = by_node.get(node_id)
            if region is None or region.space is not MemorySpace.HBM or nodes.count(node_id) > 1:
                got = node_id if region is None or region.space is not MemorySpace.HBM else f"{node_id} twice"
                raise fail(got, "slices of HBM, each once")
        slices = [by_node[node_id] for node_id in nodes]
        yield _Memory(name, slices, each.granule_nbytes, MAX_MEMORY_NBYTES, (*path, "slices"))


def _cubes(by_owner: Mapping[int, MemoryRegion], graph: Graph, granule_nbytes: int) -> Iterator[_Memory]:
    """The HBM of every cube, for granules of more than 0 bytes."""
    if not granule_nbytes:
        return
    cubes: dict[tuple[int, int], list[MemoryRegion]] = {
        (node.sip, node.cube): [] for node in graph.nodes.values() if node.sip is not None and node.cube is not None
    }
    for region in by_owner.values():
        if region.space is MemorySpace.HBM:
            cubes[_place(graph.nodes[region.node_id])].append(region)
    for (sip, cube), slices in cubes.items():
        yield _Memory(f"sip{sip}.cube{cube}.hbm", slices, granule_nbytes, _LAST_NBYTES, ("hbm_interleave_nbytes",))


def _sips(cubes: Sequence[_Memory]) -> Iterator[_Memory]:
    """The HBM of every SIP, of the HBM of its *cubes*. A SIP of one cube has none of its own."""
    sips: dict[str, list[_Memory]] = {}
    for cube in cubes:
        sips.setdefault(cube.name.partition(".")[0], []).append(cube)
    for sip, found in sips.items():
        slices = [each for cube in found for each in cube.slices]
        granule_nbytes = max(_SIP_GRANULE_NBYTES, found[0].granule_nbytes)
        if any(each.nbytes % granule_nbytes for each in slices):
            granule_nbytes = found[0].granule_nbytes
        if len(found) > 1:
            yield _Memory(f"{sip}.hbm", slices, granule_nbytes, _LAST_NBYTES, ("hbm_interleave_nbytes",))


def _starts(memory: _Memory) -> list[int]:
    """The bytes of a slice at which regions begin, and the end of the last one."""
    granule_nbytes, count = memory.granule_nbytes, len(memory.slices)
    nbytes = min(each.nbytes for each in memory.slices) // granule_nbytes * granule_nbytes
    most, found = memory.last_nbytes, [nbytes]
    while found[0]:
        found.insert(0, max(0, found[0] - max(1, most // (granule_nbytes * count)) * granule_nbytes))
        most = MAX_MEMORY_NBYTES
    return found[:-1]


def _regions(
    memory: _Memory, cubes: tuple[tuple[int, int], ...], first_unit: int, starts: Sequence[int]
) -> Iterator[InterleavedRegion]:
    count, (sip, cube) = len(memory.slices), cubes[0]
    interleaving = Interleaving(granule_nbytes=memory.granule_nbytes, count=count)
    end = min(each.nbytes for each in memory.slices) // memory.granule_nbytes * memory.granule_nbytes
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
        owner = owner_of(sip, cube, MemorySpace.HBM, first_unit + number)
        yield InterleavedRegion(
            node_id=memory.name + (f"[{number}]" if len(starts) > 1 else ""),
            owner=owner,
            base=join_address(owner, 0),
            nbytes=(stop - start) * count,
            space=MemorySpace.HBM,
            unit=first_unit + number,
            interleaving=interleaving,
            slices=tuple(each.base + start for each in memory.slices),
            memory=memory.name,
            cubes=cubes,
        )


def _check(memory: _Memory, graph: Graph, source: YamlSource) -> None:
    granule_nbytes, slices = memory.granule_nbytes, memory.slices
    smallest = min((each.nbytes for each in slices), default=0)
    if len(slices) < 2:
        got, needs = f"{granule_nbytes}, and {len(slices)} slices of HBM in {memory.name}", "several slices"
    elif len({graph.nodes[each.node_id].yaml_path for each in slices}) > 1:
        got, needs = f"slices of several kinds in {memory.name}", "copies of one node"
    elif smallest % granule_nbytes:
        got, needs = str(granule_nbytes), f"a granule that divides the {smallest} bytes of a slice"
    elif granule_nbytes * len(slices) > MAX_MEMORY_NBYTES:
        got, needs = f"{len(slices)} granules of {granule_nbytes}", f"at most {MAX_MEMORY_NBYTES} bytes of one round"
    else:
        return
    raise source.error(memory.yaml_path, got, needs)


def _place(node: Node) -> tuple[int, int]:
    assert node.sip is not None
    assert node.cube is not None
    return node.sip, node.cube
