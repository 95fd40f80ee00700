"""`kb topology check` and `show`: whether a chip can be built, what it is made of, and what it looks like."""

from __future__ import annotations

from collections import Counter

import click
from msgspec import Struct

from kb_cli.benchmark import bundled
from kb_cli.report.chip import default_view, overview, save_picture
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_engine import Engine
from kb_topology import Topology, count_kinds, format_nbytes, load_topology
from kb_topology.diagram import VIEWS, View


class MemoryCount(Struct, frozen=True, kw_only=True):
    """`count` memories of one space and size."""

    space: str
    count: int
    nbytes: int


class ChipCheck(Struct, frozen=True, kw_only=True):
    """What a topology that can be built is made of. `nodes` by kind."""

    name: str
    description: str
    digest: str
    nodes: dict[str, int]
    links: int
    wires: int
    pes: int
    memories: list[MemoryCount]


def check(topology: Topology) -> ChipCheck:
    """Build every block of *topology*. Raises TopologyError at the first that cannot be."""
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


@click.group("topology")
def command() -> None:
    """Look at chips described in YAML."""


@command.command("check", short_help="Build every block of a topology, and count.")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def check_command(file: str, as_json: bool) -> None:
    """Check FILE, a YAML file or the name of a bundled topology: load it and build every block it names."""
    found = check(load_topology(bundled.find("topologies", file)))
    if as_json:
        emit_json(found)
    else:
        emit_lines(_lines(file, found))


@command.command("show", short_help="Draw a topology, and print counts, bandwidths and memory map.")
@click.argument("topology")
@click.option("--view", type=click.Choice(VIEWS), help="What to draw; left out, as much as there is.")
@click.option("--out", metavar="FILE.svg", help="Where the picture goes [default: NAME-VIEW.svg here].")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def show_command(topology: str, view: View | None, out: str | None, as_json: bool) -> None:
    """Draw TOPOLOGY, a YAML file or a bundled name, and print its counts, bandwidths and memory map."""
    loaded = load_topology(bundled.find("topologies", topology))
    chosen = view or default_view(loaded)
    found = overview(loaded, save_picture(loaded, chosen, out), chosen)
    if as_json:
        emit_json(found)
    else:
        from kb_cli.report.chip_tables import chip_tables

        emit_tables(*chip_tables(found))


def _lines(file: str, found: ChipCheck) -> list[str]:
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
