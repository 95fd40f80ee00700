"""`kb topology`: checks that a chip can be built, and shows its parts."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.benchmark import bundled
from kb_cli.report.data.chip import default_picture, default_view, overview, save_picture, view_of
from kb_cli.report.data.chip_check import check_chip, check_lines
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.output_file import check_ending, check_folder, refuse_overwriting
from kb_messages import TopologyError
from kb_topology import Topology, load_topology
from kb_topology.diagram import VIEWS, Loads, View


@click.group("topology")
def command() -> None:
    """Look at chips described in YAML."""


@command.command("check", cls=CheckedCommand, short_help="Build every block of a topology, and count.")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def check_command(file: str, as_json: bool) -> None:
    """Check FILE, a YAML file or the name of a bundled topology: load it and build every block it names."""
    found = check_chip(load_topology(bundled.find("topologies", file)))
    if as_json:
        emit_json(found)
    else:
        emit_lines(check_lines(file, found))


@command.command("show", cls=CheckedCommand, short_help="Draw a topology, and print counts, bandwidths and memory map.")
@click.argument("topology", required=False)
@click.option(
    "--run", type=click.Path(path_type=Path), metavar="RUN", help="Colour links and blocks by their use in a run."
)
@click.option("--view", type=click.Choice(VIEWS), help="What to draw [default: the widest view with several boxes].")
@click.option("--part", default="", metavar="ID", help="Which one, like sip0.cube3 [default: the first, for all].")
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="FILE.svg",
    help="Where the picture goes [default: NAME-VIEW.svg here].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def show_command(
    topology: str | None, run: Path | None, view: View | None, part: str, out: str | None, as_json: bool
) -> None:
    """Draw TOPOLOGY, a YAML file or a bundled name, and print its counts, bandwidths and memory map.

    With --run, draw the chip of a finished run. RUN is a run folder. Colours show how long links, memories and blocks
    were in service; TOPOLOGY may be left out. A box or line that stands for several parts shows the busiest and the
    mean; --part draws one SIP, cube or PE alone.
    """
    loaded, loads, files = _chip_and_loads(topology, run)
    chosen = view or (view_of(part) if part else default_view(loaded))
    picture = Path(out) if out is not None else default_picture(loaded, chosen, part, run)
    refuse_overwriting("--out", picture, *files)
    check_ending("--out", picture, ".svg")
    check_folder("--out", picture)
    save_picture(loaded, chosen, part, loads, picture)
    found = overview(loaded, picture, chosen, part, run)
    if as_json:
        emit_json(found)
    else:
        from kb_cli.report.tables.chip_tables import chip_tables

        emit_tables(*chip_tables(found))


def _chip_and_loads(topology: str | None, run: Path | None) -> tuple[Topology, Loads | None, list[Path]]:
    """Returns the chip to draw, the load of its parts, and the files that both were read from."""
    file = bundled.find("topologies", topology) if topology is not None else None
    if run is None:
        if file is None:
            raise TopologyError("TOPOLOGY", "neither a topology nor --run", "one of the two", "name one, like one_sip")
        return load_topology(file), None, [file]
    from kb_cli.run.base.files import RUN, TOPOLOGY, USAGE
    from kb_cli.run.records.run_loads import read_loads

    ran, loads = read_loads(run)
    if file is not None and load_topology(file).digest != ran.digest:
        got = f"{topology}, another chip than that of {run}, {ran.name}"
        raise TopologyError("TOPOLOGY", got, "the chip of the run", "leave TOPOLOGY out")
    return ran, loads, [run / RUN, run / TOPOLOGY, run / USAGE, *([] if file is None else [file])]
