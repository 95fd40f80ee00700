"""`kb whatif`: repeats a finished run on its chip with other values."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from kb_cli.report.tables.compare_tables import comparison_parts, whatif_lines
from kb_cli.run.base.files import write_whole
from kb_cli.run.base.progress import RunProgress
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.output_file import check_folder
from kb_cli.whatif.whatif import what_if
from kb_messages import KbError


@click.command("whatif", cls=CheckedCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "texts",
    multiple=True,
    required=True,
    metavar="PATH=VALUE",
    help="Set a value of the chip's YAML, e.g. '$.cube.nodes.hbm.bw_gbs=204.8'. May be given several times.",
)
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg",
    help="Write the answer as a picture. An existing file is overwritten.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(run: Path, texts: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Run the benchmark of RUN, a run folder, again on its chip with other values, and compare.

    This runs bench.py of RUN, which is a program with all your rights: name folders of people whom you trust. The
    files that are used are compared with the hashes of run.json before. RUN stays as it is.
    """
    if out is not None:
        if out.suffix.lower() != ".svg":
            raise KbError("-o", out.suffix or repr(out.name), ".svg")
        check_folder("-o", out)
    printing = redirect_stdout(sys.stderr) if as_json else nullcontext()  # of the benchmark itself
    with printing, RunProgress() as progress:
        found = what_if(run, texts, progress)
    if out is not None:
        from kb_cli.report.pictures.whatif_picture import whatif_file

        write_whole(out, whatif_file(found))
    if as_json:
        emit_json(found)
    else:
        emit_tables(*whatif_lines(found), *comparison_parts(found.comparison))
        if out is not None:
            emit_lines(["", f"{out}: the answer as a picture"])
