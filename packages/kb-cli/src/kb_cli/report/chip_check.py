"""What `kb topology check` does and prints: builds every block of a chip, and counts what the chip is made of."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from kb_engine import Engine
from kb_topology import Topology, count_kinds, format_nbytes


class MemoryCount(Struct, frozen=True, kw_only=True):
    """`count` memories of one space and size."""

    space: str
    count: int
    nbytes: int


class ChipCheck(Struct, frozen=True, kw_only=True):
    """The parts of a topology whose blocks were all built. `nodes` is by kind."""

    name: str
    description: str
    digest: str
    nodes: dict[str, int]
    links: int
    wires: int
    pes: int
    memories: list[MemoryCount]


def check_chip(topology: Topology) -> ChipCheck:
    """Build every block of *topology*, and count. Raises TopologyError for a block that cannot be built."""
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
    )


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
        f"{file}: ok",
    ]
