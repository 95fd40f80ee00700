"""The check of `kb topology check`: builds every block of a chip, counts its parts, and finds missing links and
wires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import UNSET, Struct, UnsetType

from kb_engine import Engine
from kb_messages import MemorySpace
from kb_topology import FORWARDING, Graph, NodeKind, Topology, count_kinds, format_nbytes, listing, slow_text

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
"""Pairs of blocks of a PE that a tile visits one after the other, for every GEMM and every function of values in
memory. A scheduler also has wires to PE_GEMM and PE_MATH, by which it knows for which arrays it chooses tiles."""
_SHARED = {MemorySpace.HBM, MemorySpace.SRAM}
"""The spaces that DMAs reach over links."""
_Neighbours = Callable[[str], Iterable[str]]


class MemoryCount(Struct, frozen=True, kw_only=True):
    """`count` memories of one space and size."""

    space: str
    count: int
    nbytes: int


class ChipCheck(Struct, frozen=True, kw_only=True):
    """The parts of a topology whose blocks were all built. `nodes` is by kind.

    `unreached` lists the memories of the spaces hbm and sram to which no DMA of a PE has a way, and `cut_off` the DMAs
    that have a way to none of these memories. Both are empty for a chip without PEs or without such memories.
    `no_way_back` lists the memories that a DMA reaches and from which no way leads to a DMA. `unanswered` lists the
    DMAs that reach a memory and to which no way leads from a memory: data and acknowledgements have to come back.
    `apart` lists memories that some DMA reaches and another one does not, so that the chip falls into parts; each
    stands with the first DMA that has no way to it (`a to b`), or to which it has none (`b to a`). `unwired` lists
    blocks of PEs (`a -> b`) between which tiles of GEMMs or math have to go, and no wire leads. `slow` has the factors
    of slow PEs by id, and is missing where there are none.
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
    no_way_back: list[str]
    unanswered: list[str]
    apart: list[str]
    unwired: list[str]
    slow: dict[str, float] | UnsetType = UNSET


def check_chip(topology: Topology) -> ChipCheck:
    """Builds every block of *topology*, and counts its parts. Raises TopologyError for a block that cannot be built."""
    Engine(topology)
    graph = topology.graph
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
        **_link_gaps(topology),
        unwired=list(_unwired(graph)),
        slow=dict(topology.slow) or UNSET,
    )


def _unwired(graph: Graph) -> Iterator[str]:
    """Yields the pairs of `_NEXT` between which a PE that has both blocks has no wire."""
    for first, second in _NEXT:
        ends = {node.pe_id: node.id for node in graph.nodes_of_kind(second)}
        for node in graph.nodes_of_kind(first):
            end = ends.get(node.pe_id)
            if end is not None and end not in {wire.dst for wire in graph.out_wires(node.id)}:
                yield f"{node.id} -> {end}"


def _link_gaps(topology: Topology) -> dict[str, list[str]]:
    """Returns the fields of a ChipCheck about missing links."""
    graph = topology.graph
    dmas = [node.id for node in graph.nodes_of_kind(NodeKind.PE_DMA)]
    shared = [each.node_id for each in topology.address_map.regions if each.space in _SHARED]
    out, back = _ways(graph)
    reached, reaching = _joined(graph, dmas, out), _joined(graph, shared, back)
    returning, answered = _joined(graph, dmas, back), _joined(graph, shared, out)
    starts, ends = [dma for dma in dmas if dma in reaching], [memory for memory in shared if memory in reached]
    apart = {memory: f"{dma} to {memory}" for dma, memory in _apart(graph, starts, ends, out, back)}
    asking, giving = [dma for dma in starts if dma in answered], [memory for memory in ends if memory in returning]
    for dma, memory in _apart(graph, asking, giving, back, out):
        apart.setdefault(memory, f"{memory} to {dma}")
    return {
        "unreached": [memory for memory in shared if memory not in reached] if dmas else [],
        "cut_off": [dma for dma in dmas if dma not in reaching] if shared else [],
        "no_way_back": [memory for memory in ends if memory not in returning],
        "unanswered": [dma for dma in starts if dma not in answered],
        "apart": list(apart.values()),
    }


def _ways(graph: Graph) -> tuple[_Neighbours, _Neighbours]:
    """Returns two functions: the nodes at the ends of links that begin at a node, and those at the beginnings of its
    links.
    """
    return (
        lambda node_id: [link.dst for link in graph.out_links(node_id)],
        lambda node_id: [link.src for link in graph.in_links(node_id)],
    )


def _apart(
    graph: Graph, dmas: list[str], memories: list[str], out: _Neighbours, back: _Neighbours
) -> Iterator[tuple[str, str]]:
    """Yields each of *memories* that not all *dmas* reach along *out*, behind the first DMA that has no way to it.

    *back* gives the neighbours in the opposite direction. A DMA with a way to a forwarding node that reaches all
    memories is not searched, so a chip in one piece costs two searches.
    """
    all_ways = _hub(graph, dmas, memories, out, back)
    reported: set[str] = set()
    for dma in dmas:
        if dma not in all_ways:
            found = _joined(graph, [dma], out)
            for memory in memories:
                if memory not in found and memory not in reported:
                    reported.add(memory)
                    yield dma, memory


def _hub(graph: Graph, dmas: list[str], memories: list[str], out: _Neighbours, back: _Neighbours) -> set[str]:
    """Returns the nodes with a way to the first forwarding node behind a DMA, if that node has a way to all
    *memories*.
    """
    near = (each for dma in dmas for each in out(dma) if graph.nodes[each].kind in FORWARDING)
    hub = next(near, None)
    if hub is None or not set(memories) <= _joined(graph, [hub], out):
        return set()
    return _joined(graph, [hub], back)


def _joined(graph: Graph, ends: Iterable[str], neighbours: _Neighbours) -> set[str]:
    """Returns the nodes that a way joins with one of *ends*. A way passes through forwarding nodes alone."""
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
    """Returns the lines to print for *found*, the check of the topology that the user named *file*."""
    nodes = ", ".join(f"{count} {kind}" for kind, count in found.nodes.items())
    pes = f"{found.pes} {'PE' if found.pes == 1 else 'PEs'}"
    memories = ", ".join(f"{each.count} x {format_nbytes(each.nbytes)} {each.space}" for each in found.memories)
    return [
        f"{found.name}: {found.description}",
        f"  {sum(found.nodes.values())} nodes: {nodes}",
        f"  {pes}, {found.links} links (each direction counts), {found.wires} wires",
        f"  memories: {memories}",
        *([f"  slow PEs: {slow_text(found.slow)}"] if found.slow else []),
        *_gaps(found),
        f"{file}: ok",
    ]


def _gaps(found: ChipCheck) -> list[str]:
    """Returns the notes on memories and DMAs without links, and on blocks of PEs without a wire."""
    reach, lead_back = "add links to reach them", "add links that lead back"
    gaps = [
        ("no PE has a way to", found.unreached, reach),
        ("no way to any HBM or SRAM from", found.cut_off, reach),
        ("no way back to any PE from", found.no_way_back, lead_back),
        ("no way back from any HBM or SRAM to", found.unanswered, lead_back),
    ]
    notes = [f"  note: {said} {listing(ends, limit=8)}; {fix}" for said, ends, fix in gaps if ends]
    if found.apart:
        notes.append(f"  note: no way from {listing(found.apart, limit=8)}; add links that join the parts of the chip")
    if found.unwired:
        fix = "add the wires to pe_template, or GEMMs and math cannot run, or have tiles that suit no array"
        notes.append(f"  note: no wire {listing(found.unwired, limit=8)}; {fix}")
    return notes
