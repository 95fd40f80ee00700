"""The figures of `kb topology show`, and its picture."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from kb_cli.run.base.files import write_whole
from kb_cli.terminal.escape import file_stem
from kb_topology import LinkGroup, Topology, Validation, count_kinds, link_groups
from kb_topology.diagram import VIEWS, Loads, View, draw


class MemoryRun(Struct, frozen=True, kw_only=True):
    """`count` memories of one space and size. Their base addresses are `stride` bytes apart."""

    space: str
    count: int
    nbytes: int
    first: str
    last: str
    base: int
    stride: int


class Overview(Struct, frozen=True, kw_only=True):
    """A chip in numbers: nodes by kind, links in groups, and the memory map. `picture` is the path of the picture.

    `part` is the part in the picture, and empty for the first of equal parts. `run` is the folder of the run that gave
    the picture its colours, and missing without one. `slow` has the factors of slow PEs by id, and is missing where
    there are none. `compared` has a sentence for each comparison with a device.
    """

    name: str
    description: str
    digest: str
    sips: int
    cubes: int
    pes: int
    nodes: dict[str, int]
    links: list[LinkGroup]
    memory_map: list[MemoryRun]
    compared: list[str]
    view: str
    part: str
    picture: str
    run: str | UnsetType = UNSET
    slow: dict[str, float] | UnsetType = UNSET


def overview(topology: Topology, picture: Path, view: View, part: str, run: Path | None) -> Overview:
    """Returns the numbers of *topology*, whose *view* of *part* is drawn in the file *picture*, coloured by *run*."""
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
        compared=[_compared(each, topology.digest) for each in spec.fidelity or []],
        view=view,
        part=part,
        picture=str(picture),
        run=UNSET if run is None else str(run),
        slow=dict(topology.slow) or UNSET,
    )


def _compared(stated: Validation, digest: str) -> str:
    """Returns a sentence on a comparison: its rows, and the runs that are like the rows."""
    parts = [f"compared with {stated.rows_text} (p90 {stated.p90:g}): {stated.runs_text}"]
    if stated.startup:
        parts.append(f"start-up {stated.startup}")
    if stated.times:
        parts.append(stated.times)
    if not stated.is_of(digest):
        parts.append("the chip was changed since")
    return "; ".join(parts)


def default_view(topology: Topology) -> View:
    """Returns the widest view of *topology* that shows more than one box."""
    spec = topology.spec
    if spec.sips > 1 or any(node.sip is None for node in topology.graph.nodes.values()):
        return "system"
    return "sip" if spec.cubes_per_sip > 1 else "cube"


def view_of(part: str) -> View:
    """Returns the view of the part that a user named: `sip1`, `sip0.cube3` or `sip0.cube3.pe5`."""
    return VIEWS[min(part.count(".") + 1, len(VIEWS) - 1)]


def default_picture(topology: Topology, view: View, part: str, run: Path | None) -> Path:
    """Returns NAME-VIEW.svg in the working directory. NAME is safe, whatever the name of *topology* or of the folder
    *run*.
    """
    name = topology.name if run is None else run.resolve().name
    return Path(f"{file_stem(name, 'topology')}-{part or view}.svg")


def save_picture(topology: Topology, view: View, part: str, loads: Loads | None, path: Path) -> None:
    """Draws *view* of *part* to the file *path*, coloured by *loads*.

    Raises TopologyError for a part that does not exist, and OSError, which names the file.
    """
    write_whole(path, draw(topology, view, part, loads).encode())
