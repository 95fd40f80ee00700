"""`kb show`: the values that the kernels of a finished run captured."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import click

from kb_cli.report.data.captures import CaptureReport, compared, report_of
from kb_cli.report.tables.capture_tables import capture_tables, captures_tables
from kb_cli.run.base.files import CAPTURES, RunFolderError, write_whole
from kb_cli.run.records.captures import captures_of, chosen, load_value
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_tables
from kb_cli.terminal.output_file import check_folder
from kb_dataexec.files import read_array
from kb_messages import KbError


@click.command("show", cls=CheckedCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("name", required=False)
@click.option("--pe", metavar="PE", help="The capture of this PE: its number, or its id.")
@click.option("--number", type=click.IntRange(min=0), metavar="I", help="Which one of several, from 0.")
@click.option(
    "--against", type=click.Path(path_type=Path, dir_okay=False), metavar="REF.npy", help="Compare with this array."
)
@click.option(
    "-o", "out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.npy", help="Write the value to FILE."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object (an array without NAME), nothing else.")
def command(
    run: Path,
    name: str | None,
    pe: str | None,
    number: int | None,
    against: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """List the captures of the kernels of RUN, or show one value: the one that `tl.capture("NAME", x)` named.

    With --against, say where it differs most from an array. With -o, write it (bf16 and fp8 as f32).
    """
    found = captures_of(run)
    if name is None:
        if pe is not None or number is not None or against is not None or out is not None:
            raise KbError("kb show", "options without NAME", "the name of a capture", "kb show RUN lists them")
        if as_json:
            emit_json(found)
        else:
            emit_tables(*captures_tables(found))
        return
    stored = chosen(run, found, name, pe, number)
    value = load_value(run / CAPTURES, stored)
    report: CaptureReport = report_of(stored, value)
    if against is not None:
        report = compared(report, value, read_array(against, RunFolderError), str(against))
    if out is not None:
        _write(out, value)
    if as_json:
        emit_json(report)
    else:
        emit_tables(*capture_tables(report, value))


def _write(path: Path, value: object) -> None:
    import numpy as np

    array = np.asarray(value)
    if path.suffix != ".npy":
        raise KbError("-o", path.suffix or repr(path.name), ".npy")
    check_folder("-o", path)
    content = BytesIO()
    np.save(content, array if array.dtype.kind in "biuf" and array.dtype.isbuiltin else array.astype(np.float32))
    write_whole(path, content.getvalue())
