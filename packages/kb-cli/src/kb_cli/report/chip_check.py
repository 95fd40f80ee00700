"""What `kb topology check` does and prints: builds every block of a chip, and counts what the chip is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from kb_engine import Engine
from kb_messages import MemorySpace
from kb_topology import FORWARDING, Graph, NodeKind, Topology, count_kinds, format_nbytes, listing

_NEXT = (
    (NodeKind.PE_SCHEDULER, NodeKind.PE_DMA),
    (NodeKind.PE_SCHEDULER, NodeKind.PE_GEMM),
    (NodeKind.PE_SCHEDULER, NodeKind.PE_MATH),
    (NodeKind.PE_DMA, NodeKind.PE_FETCH_STORE),
    (NodeKind.PE_FETCH_STORE, NodeKind.PE_GEMM),
    (NodeKind.PE_FETCH_STORE, NodeKind.PE_MATH),
    (NodeKind.PE_GEMM, NodeKind.PE_FETCH_STORE),
    (NodeKind.PE_MATH, NodeKind.PE_FETCH_STORE),
    (NodeKind.PE_FETCH_STORE, NodeKind.PE_DMA),
)
"""The blocks of a PE that a tile of every GEMM and every function of values in memory goes to one after the other. A
scheduler has wires to PE_GEMM and PE_MATH too, by which it knows for which arrays it chooses tiles."""
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
    `apart` are memories that some DMA reaches and another one does not: the chip falls into parts. Each is listed with
    the first DMA that has no way to it (`a to b`).
    `unwired` are blocks of PEs (`a -> b`) between which tiles of GEMMs or math have to go, and no wire leads.
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
    apart: list[str]
    unwired: list[str]


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
        apart=list(_apart(graph, dmas, [each for each in shared if each in reached], reaching)),
        unwired=list(_unwired(graph)),
    )


def _unwired(graph: Graph) -> Iterator[str]:
    """The blocks of `_NEXT` between which a PE that has both has no wire, by their names in a PE."""
    for first, second in _NEXT:
        ends = {node.pe_id: node.id for node in graph.nodes_of_kind(second)}
        for node in graph.nodes_of_kind(first):
            end = ends.get(node.pe_id)
            if end is not None and end not in {wire.dst for wire in graph.out_wires(node.id)}:
                yield f"{node.id} -> {end}"


def _apart(graph: Graph, dmas: list[str], memories: list[str], reaching: set[str]) -> Iterator[str]:
    """`a to b` for each of *memories*, b, to which not all *dmas* have a way, with the first DMA that has none, a.

    DMAs that have a way to no memory are left out; *reaching* have one. A DMA from which a way leads to a forwarding
    node that reaches all memories is not looked at, so chips in one piece cost two searches.
    """
    all_ways = _hub(graph, dmas, memories)
    told: set[str] = set()
    for dma in dmas:
        if dma in reaching and dma not in all_ways:
            found = _joined(graph, [dma], lambda node_id: [link.dst for link in graph.out_links(node_id)])
            for memory in memories:
                if memory not in found and memory not in told:
                    told.add(memory)
                    yield f"{dma} to {memory}"


def _hub(graph: Graph, dmas: list[str], memories: list[str]) -> set[str]:
    """The nodes with a way to the first forwarding node behind a DMA, if that one has a way to all *memories*."""
    near = (link.dst for dma in dmas for link in graph.out_links(dma) if graph.nodes[link.dst].kind in FORWARDING)
    hub = next(near, None)
    if hub is None or not set(memories) <= _joined(
        graph, [hub], lambda each: [link.dst for link in graph.out_links(each)]
    ):
        return set()
    return _joined(graph, [hub], lambda each: [link.src for link in graph.in_links(each)])


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
    """A line for memories and one for DMAs that links leave alone, and one for blocks of PEs without a wire."""
    gaps = [("no PE has a way to", found.unreached), ("no way to any HBM or SRAM from", found.cut_off)]
    notes = [f"  note: {said} {listing(ends, limit=8)}; add links to reach them" for said, ends in gaps if ends]
    if found.apart:
        notes.append(f"  note: no way from {listing(found.apart, limit=8)}; add links that join the parts of the chip")
    if found.unwired:
        fix = "add the wires to pe_template, or GEMMs and math cannot run, or have tiles that suit no array"
        notes.append(f"  note: no wire {listing(found.unwired, limit=8)}; {fix}")
    return notes
