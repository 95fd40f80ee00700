"""`kb pack`: a run as one file."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.capsule.pack import SUFFIX, pack
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_lines
from kb_cli.terminal.output_file import check_folder
from kb_cli.terminal.units import quantity


@click.command("pack", cls=CheckedCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar=f"FILE{SUFFIX}",
    help="Where the file goes. An existing file is overwritten.",
)
@click.option("--data", is_flag=True, help="Pack memory, references and log too, so that kb verify can check them.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(run: Path, out: Path, data: bool, as_json: bool) -> None:
    """Write RUN, a run folder, as one file that repeats the run anywhere with `kb replay`.

    The file is a zip that has the benchmark with the files that it imports from its own folder, the chip, and the
    manifest of the run. No code of RUN is run.
    """
    check_folder("-o", out)
    found = pack(run, out, data)
    if as_json:
        emit_json(found)
    else:
        said = f"{found.benchmark} on {found.topology}, {found.files} files, {quantity(found.nbytes, 'B')}"
        emit_lines([f"{found.path}: {said}"])
