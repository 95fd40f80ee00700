"""`kb topology`: checks that a chip can be built, and shows what it is made of."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.benchmark import bundled
from kb_cli.report.chip import default_picture, default_view, overview, save_picture
from kb_cli.report.chip_check import check_chip, check_lines
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.output_file import refuse_overwriting
from kb_topology import load_topology
from kb_topology.diagram import VIEWS, View


@click.group("topology")
def command() -> None:
    """Look at chips described in YAML."""


@command.command("check", short_help="Build every block of a topology, and count.")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def check_command(file: str, as_json: bool) -> None:
    """Check FILE, a YAML file or the name of a bundled topology: load it and build every block it names."""
    found = check_chip(load_topology(bundled.find("topologies", file)))
    if as_json:
        emit_json(found)
    else:
        emit_lines(check_lines(file, found))


@command.command("show", short_help="Draw a topology, and print counts, bandwidths and memory map.")
@click.argument("topology")
@click.option("--view", type=click.Choice(VIEWS), help="What to draw [default: the widest view with several boxes].")
@click.option("--out", metavar="FILE.svg", help="Where the picture goes [default: NAME-VIEW.svg here].")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def show_command(topology: str, view: View | None, out: str | None, as_json: bool) -> None:
    """Draw TOPOLOGY, a YAML file or a bundled name, and print its counts, bandwidths and memory map."""
    file = bundled.find("topologies", topology)
    loaded = load_topology(file)
    chosen = view or default_view(loaded)
    picture = Path(out) if out else default_picture(loaded, chosen)
    refuse_overwriting("--out", picture, file)
    save_picture(loaded, chosen, picture)
    found = overview(loaded, picture, chosen)
    if as_json:
        emit_json(found)
    else:
        from kb_cli.report.chip_tables import chip_tables

        emit_tables(*chip_tables(found))
