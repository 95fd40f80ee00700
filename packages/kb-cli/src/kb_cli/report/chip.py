"""The figures of `kb topology show`, and its picture."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from kb_cli.terminal.escape import file_stem
from kb_messages import TopologyError
from kb_topology import LinkGroup, Topology, count_kinds, link_groups
from kb_topology.diagram import View, draw


class MemoryRun(Struct, frozen=True, kw_only=True):
    """`count` memories of one space and size; their base addresses are `stride` bytes apart."""

    space: str
    count: int
    nbytes: int
    first: str
    last: str
    base: int
    stride: int


class Overview(Struct, frozen=True, kw_only=True):
    """A chip in numbers: nodes by kind, links in groups, and the memory map. `picture` is the path of the picture."""

    name: str
    description: str
    digest: str
    sips: int
    cubes: int
    pes: int
    nodes: dict[str, int]
    links: list[LinkGroup]
    memory_map: list[MemoryRun]
    view: str
    picture: str


def overview(topology: Topology, picture: Path, view: View) -> Overview:
    """The numbers of *topology*, whose *view* is drawn in the file *picture*."""
    spec, graph = topology.spec, topology.graph
    runs = topology.address_map.runs()
    return Overview(
        name=topology.name,
        description=topology.description,
        digest=topology.digest,
        sips=spec.sips,
        cubes=spec.sips * spec.cubes_per_sip,
        pes=len(graph.pe_ids),
        nodes=count_kinds(graph),
        links=link_groups(graph),
        memory_map=[
            MemoryRun(
                space=run[0].space.value,
                count=len(run),
                nbytes=run[0].nbytes,
                first=run[0].node_id,
                last=run[-1].node_id,
                base=run[0].base,
                stride=run[1].base - run[0].base if len(run) > 1 else 0,
            )
            for run in runs
        ],
        view=view,
        picture=str(picture),
    )


def default_view(topology: Topology) -> View:
    """The widest view of *topology* that shows more than one box."""
    spec = topology.spec
    if spec.sips > 1 or any(node.sip is None for node in topology.graph.nodes.values()):
        return "system"
    return "sip" if spec.cubes_per_sip > 1 else "cube"


def default_picture(topology: Topology, view: View) -> Path:
    """NAME-VIEW.svg in the working directory, whatever characters the name of *topology* has."""
    return Path(f"{file_stem(topology.name, 'topology')}-{view}.svg")


def save_picture(topology: Topology, view: View, path: Path) -> None:
    """Draw *view* to the file *path*. Raises TopologyError when the file cannot be written."""
    text = draw(topology, view)
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        got = f"a file that cannot be written ({getattr(error, 'strerror', None) or error})"
        raise TopologyError(str(path), got, "a file in a folder that is there", "name one with --out") from None
