"""The interleaved regions of a cube's HBM: addresses that run on from granule to granule over all its slices.

An address has 32 bits of offset, so the HBM of a cube is cut into regions of at most 4 GiB, each with a range of
every slice. Their units are the highest ones, which slices do not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb_messages import Interleaving, MemorySpace, TopologyError, join_address, owner_of
from kb_topology.graph import Graph, Node
from kb_topology.limits import MAX_MEMORY_NBYTES, MAX_UNITS
from kb_topology.memory_region import MemoryRegion
from kb_topology.source import YamlSource

_KEY = ("hbm_interleave_nbytes",)


class InterleavedRegion(MemoryRegion, frozen=True, kw_only=True, gc=False):
    """`nbytes` bytes that lie over the HBM slices of a cube as `interleaving` says. `node_id` is a name, and no node.

    `slices` holds the addresses of the bytes, one in each slice, from which on the region lies there.
    """

    interleaving: Interleaving
    slices: tuple[int, ...]
    sip: int
    cube: int

    @property
    def slice_nbytes(self) -> int:
        """Bytes that the region has in each slice."""
        return self.nbytes // len(self.slices)


def interleaved_regions(
    regions: Sequence[MemoryRegion], graph: Graph, granule_nbytes: int, source: YamlSource | None
) -> list[InterleavedRegion]:
    """The interleaved regions of all cubes, those of a cube in the order of their rows; none for granules of 0 bytes.

    Raises TopologyError, at `hbm_interleave_nbytes` of *source*, unless each cube has several slices of HBM, which are
    whole granules. Those of a cube have one size, because their units count the copies of one node.
    """
    if not granule_nbytes:
        return []
    cubes: dict[tuple[int, int], list[MemoryRegion]] = {
        (node.sip, node.cube): [] for node in graph.nodes.values() if node.sip is not None and node.cube is not None
    }
    for region in regions:
        if region.space is MemorySpace.HBM:
            cubes[_place(graph.nodes[region.node_id])].append(region)
    found: list[InterleavedRegion] = []
    for (sip, cube), slices in cubes.items():
        _check(f"sip{sip}.cube{cube}", slices, granule_nbytes, source)
        found += _regions_of_cube(sip, cube, slices, granule_nbytes)
    return found


def _regions_of_cube(
    sip: int, cube: int, slices: Sequence[MemoryRegion], granule_nbytes: int
) -> Iterator[InterleavedRegion]:
    interleaving = Interleaving(granule_nbytes=granule_nbytes, count=len(slices))
    most = MAX_MEMORY_NBYTES // interleaving.round_nbytes * granule_nbytes
    starts = range(0, slices[0].nbytes, most)
    for number, start in enumerate(starts):
        owner = owner_of(sip, cube, MemorySpace.HBM, unit := MAX_UNITS - len(starts) + number)
        yield InterleavedRegion(
            node_id=f"sip{sip}.cube{cube}.hbm" + (f"[{number}]" if len(starts) > 1 else ""),
            owner=owner,
            base=join_address(owner, 0),
            nbytes=min(most, slices[0].nbytes - start) * len(slices),
            space=MemorySpace.HBM,
            unit=unit,
            interleaving=interleaving,
            slices=tuple(each.base + start for each in slices),
            sip=sip,
            cube=cube,
        )


def _check(cube: str, slices: Sequence[MemoryRegion], granule_nbytes: int, source: YamlSource | None) -> None:
    if len(slices) < 2:
        got, needs = f"{granule_nbytes}, and {len(slices)} slices of HBM in {cube}", "0, or several slices in each cube"
    elif slices[0].nbytes % granule_nbytes:
        got, needs = str(granule_nbytes), f"granules that the {slices[0].nbytes} bytes of a slice are whole numbers of"
    elif max(region.unit for region in slices) >= MAX_UNITS - len(slices):
        got, needs = (
            f"{granule_nbytes}, and {len(slices)} slices in {cube}",
            f"at most {MAX_UNITS // 2} slices in a cube",
        )
    else:
        return
    raise source.error(_KEY, got, needs) if source is not None else TopologyError(_KEY[0], got, needs)


def _place(node: Node) -> tuple[int, int]:
    assert node.sip is not None
    assert node.cube is not None
    return node.sip, node.cube
