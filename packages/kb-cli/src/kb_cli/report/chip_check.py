"""What `kb topology check` does and prints: builds every block of a chip, and counts what the chip is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from kb_engine import Engine
from kb_messages import MemorySpace
from kb_topology import FORWARDING, Graph, NodeKind, Topology, count_kinds, format_nbytes, listing

_SHARED = {MemorySpace.HBM, MemorySpace.SRAM}
"""The spaces that DMAs reach over links."""


class MemoryCount(Struct, frozen=True, kw_only=True):
    """`count` memories of one space and size."""

    space: str
    count: int
    nbytes: int


class ChipCheck(Struct, frozen=True, kw_only=True):
    """The parts of a topology whose blocks were all built. `nodes` is by kind.

    `unreached` are the memories of the spaces hbm and sram to which no DMA of a PE has a way, and `cut_off` the DMAs
    that have a way to none of these memories. Both are empty for a chip without PEs or without such memories.
    """

    name: str
    description: str
    digest: str
    nodes: dict[str, int]
    links: int
    wires: int
    pes: int
    memories: list[MemoryCount]
    unreached: list[str]
    cut_off: list[str]


def check_chip(topology: Topology) -> ChipCheck:
    """Build every block of *topology*, and count. Raises TopologyError for a block that cannot be built."""
    Engine(topology)
    graph = topology.graph
    dmas = [node.id for node in graph.nodes_of_kind(NodeKind.PE_DMA)]
    shared = [each.node_id for each in topology.address_map.regions if each.space in _SHARED]
    reached = _joined(graph, dmas, lambda node_id: [link.dst for link in graph.out_links(node_id)])
    reaching = _joined(graph, shared, lambda node_id: [link.src for link in graph.in_links(node_id)])
    sizes = Counter((region.space.value, region.nbytes) for region in topology.address_map.regions)
    return ChipCheck(
        name=topology.name,
        description=topology.description,
        digest=topology.digest,
        nodes=count_kinds(graph),
        links=len(graph.links),
        wires=len(graph.wires),
        pes=len(graph.pe_ids),
        memories=[MemoryCount(space=space, nbytes=nbytes, count=count) for (space, nbytes), count in sizes.items()],
        unreached=[memory for memory in shared if memory not in reached] if dmas else [],
        cut_off=[dma for dma in dmas if dma not in reaching] if shared else [],
    )


def _joined(graph: Graph, ends: Iterable[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    """The nodes that a way joins with one of *ends*. A way passes through forwarding nodes alone."""
    found: set[str] = set()
    left = list(ends)
    while left:
        for each in neighbours(left.pop()):
            if each not in found:
                found.add(each)
                if graph.nodes[each].kind in FORWARDING:
                    left.append(each)
    return found


def check_lines(file: str, found: ChipCheck) -> list[str]:
    """The lines printed for *found*, the counts of the topology that the user named *file*."""
    nodes = ", ".join(f"{count} {kind}" for kind, count in found.nodes.items())
    pes = f"{found.pes} {'PE' if found.pes == 1 else 'PEs'}"
    memories = ", ".join(f"{each.count} x {format_nbytes(each.nbytes)} {each.space}" for each in found.memories)
    return [
        f"{found.name}: {found.description}",
        f"  {sum(found.nodes.values())} nodes: {nodes}",
        f"  {pes}, {found.links} links (each direction counts), {found.wires} wires",
        f"  memories: {memories}",
        *_gaps(found),
        f"{file}: ok",
    ]


def _gaps(found: ChipCheck) -> list[str]:
    """A line for memories and one for DMAs that links leave alone."""
    gaps = [("no PE has a way to", found.unreached), ("no way to any HBM or SRAM from", found.cut_off)]
    return [f"  note: {said} {listing(ends, limit=8)}; add links to reach them" for said, ends in gaps if ends]
