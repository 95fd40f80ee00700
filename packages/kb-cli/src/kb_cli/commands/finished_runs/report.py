"""`kb report`: where the time of a finished run went, on the terminal or as one HTML file."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from kb_cli.report.data.run_report import TimeReport, make_report
from kb_cli.report.data.run_source import read_run_source
from kb_cli.report.html.page import report_page
from kb_cli.report.pictures.lanes import lane_pictures
from kb_cli.report.tables.report_tables import report_tables
from kb_cli.run.base.files import write_whole
from kb_cli.run.base.progress import RunProgress
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.output_file import check_folder
from kb_cli.terminal.units import quantity
from kb_cli.whatif.levers import levers
from kb_messages import KbError

_ENDINGS = (".html", ".htm")


class _Most(click.IntRange):
    """A number of levers, of which `none` is 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns *value* as a number; `none` is 0."""
        if value == "none":
            return 0
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"got {value!r}, needs a number from 0 or none.", param, ctx)


@click.command("report", cls=CheckedCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write one HTML file that needs no network. An existing file is overwritten.",
)
@click.option(
    "--levers",
    "most",
    type=_Most(min=0),
    metavar="N|none",
    help="Measure up to N values of the chip that would gain most, within 30 s. This runs bench.py of RUN. 0 and none "
    "measure none.  [default: all for a bundled benchmark, none for any other]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(run: Path, out: Path | None, most: int | None, as_json: bool) -> None:
    """Say where the time of RUN went, a run folder or a row of a shapes run (RUN/0003).

    The report has the critical path by block and by kernel line, how busy each kind of block was and how much of its
    work was hidden, the values of the chip that would gain most, the roofline, and every PE's own view. With -o it has
    pictures of all lanes too. No code of RUN is run, except with --levers: name folders of people whom you trust.
    """
    if out is not None and out.suffix.lower() not in _ENDINGS:
        raise KbError("-o", out.suffix or repr(out.name), ".html")
    if out is not None:
        check_folder("-o", out)
    source = read_run_source(run)
    report = make_report(source)
    if most or (most is None and source.is_of_kb):
        report = _with_levers(report, run, most, as_json)
    if out is not None:
        lanes = None if source.log is None else lane_pictures(source.log, str(run))
        page = report_page(report, source.text, lanes)
        write_whole(out, page)
    if as_json:
        emit_json(report)
    elif out is not None:
        emit_lines([report.sentence, *report.notes, f"{out}: {quantity(len(page), 'B')}"])
    else:
        emit_tables(*report_tables(report))


def _with_levers(report: TimeReport, run: Path, most: int | None, as_json: bool) -> TimeReport:
    """Adds levers to *report*. Where none were asked for (*most* is None), an error becomes a note."""
    printing = redirect_stdout(sys.stderr) if as_json else nullcontext()  # of the benchmark itself
    try:
        with printing, RunProgress() as progress:
            found = levers(run, most, progress=progress, only_bundled=most is None)
    except KbError as error:
        if most is not None:
            raise
        return replace(report, notes=[*report.notes, f"{run}: got no levers: {error}"])
    return replace(report, levers=found.levers)
