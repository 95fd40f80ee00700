"""The address map: from an address to the memory that holds it, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from kb_messages import OFFSET_BITS, AddressError, PhysAddr, TopologyError, split_address
from kb_topology.chip.graph import Graph, Node, NodeMemory
from kb_topology.chip.spec import TopologySpec
from kb_topology.memory.interleaved_hbm import InterleavedRegion, MemoryRegion, default_memory, interleaved_regions
from kb_topology.text.sentences import listing
from kb_topology.text.sizes import format_nbytes
from kb_topology.text.source import YamlSource


@dataclass(frozen=True)
class AddressMap:
    """Every memory of a topology, by owner number.

    `interleaved` has the interleaved regions by owner number: regions whose bytes lie over slices of HBM, in turn. A
    byte of a slice then has several addresses, and the host uses one of them at a time. `default_memory` is the name of
    the interleaved memory for tensors that name no memory, or None.
    """

    by_owner: Mapping[int, MemoryRegion]
    interleaved: Mapping[int, InterleavedRegion]
    default_memory: str | None = None

    @classmethod
    def from_graph(cls, graph: Graph, source: YamlSource | None = None, spec: TopologySpec | None = None) -> AddressMap:
        """The map of all nodes with memory, and of the interleaved memories of *spec*, which was read from *source*.

        The die of a memory is its cube. The unit of a memory in a PE is the number of the PE. The unit of any other
        memory is the index of its node, or 0 without index. Raises TopologyError, at the place in *source* if given,
        when two memories get the same addresses, and for slices that cannot be interleaved.
        """
        by_owner: dict[int, MemoryRegion] = {}
        for node in graph.nodes.values():
            if node.memory:
                region = _region(node, node.memory)
                other = by_owner.setdefault(region.owner, region)
                if other is not region:
                    raise _conflict(node, other, source)
        if source is None or spec is None:
            return cls(by_owner, {})
        found = interleaved_regions(by_owner, graph, spec, source)
        return cls(by_owner, {region.owner: region for region in found}, default_memory(spec, found))

    @property
    def regions(self) -> tuple[MemoryRegion, ...]:
        """All regions in the order of the graph."""
        return tuple(self.by_owner.values())

    def region_of_node(self, node_id: str) -> MemoryRegion:
        """The region of the node *node_id*. Raises AddressError when that node has no memory."""
        region = self._by_node.get(node_id)
        if region is None:
            raise AddressError(node_id, "a node without memory", f"one of {self.describe()}")
        return region

    def decode(self, address: int) -> tuple[MemoryRegion, int]:
        """Returns (region of *address*, offset from the base of the region).

        Raises AddressError when no region holds *address*.
        """
        owner, offset = split_address(address)
        region = self.by_owner.get(owner) or self.interleaved.get(owner)
        if region is None or offset >= region.nbytes:
            raise AddressError(f"address {address:#x}", "no memory there", f"an address in {self.describe()}")
        return region, offset

    def label(self, owner: int) -> str:
        """The node id of memory *owner*, or the name of an interleaved region; "" for an unknown owner."""
        region = self.by_owner.get(owner) or self.interleaved.get(owner)
        return region.node_id if region is not None else ""

    def describe(self) -> str:
        """The map on one line. A run of equal memories is one entry, and a large chip shows only its first entries."""
        return listing(self._entries()) if self.by_owner else "a memory, and the topology has none"

    @cached_property
    def _by_node(self) -> dict[str, MemoryRegion]:
        return {region.node_id: region for region in self.regions}

    def runs(self) -> Iterator[list[MemoryRegion]]:
        """All regions in the order of their addresses, in runs: regions of one size whose units follow each other."""
        ordered = sorted(self.by_owner.values(), key=lambda region: region.owner)
        for _, group in groupby(enumerate(ordered), key=lambda item: (item[1].owner - item[0], item[1].nbytes)):
            yield [region for _, region in group]

    def _entries(self) -> Iterator[str]:
        for run in self.runs():
            names = run[0].node_id if len(run) == 1 else f"{run[0].node_id} .. {run[-1].node_id}"
            size = format_nbytes(run[0].nbytes)
            others = f", then every {1 << OFFSET_BITS:#x}" if len(run) > 1 else ""
            yield f"{names} ({size} from {run[0].base:#x}{others})"


def _region(node: Node, memory: NodeMemory) -> MemoryRegion:
    unit = node.pe if node.pe is not None else node.index or 0
    if node.sip is None or node.cube is None:
        raise AddressError(node.id, "a memory outside the cubes", "one in a cube: an address names a SIP and a cube")
    base = PhysAddr(sip=node.sip, die=node.cube, space=memory.space, unit=unit).encode()
    return MemoryRegion(
        node_id=node.id, owner=split_address(base)[0], base=base, nbytes=memory.nbytes, space=memory.space, unit=unit
    )


def _conflict(node: Node, other: MemoryRegion, source: YamlSource | None) -> TopologyError:
    got = f"the same addresses as {other.node_id}"
    needs = f"one {other.space} memory per unit (unit {other.unit} is taken)"
    if source is None:
        return TopologyError(node.id, got, needs)
    return source.error((*node.yaml_path, "memory"), got, needs)
