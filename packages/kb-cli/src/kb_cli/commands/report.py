"""`kb report`: where the time of a finished run went, on the terminal or as one HTML file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kb_cli.report.lane_pictures import lane_pictures
from kb_cli.report.page import report_page
from kb_cli.report.report_tables import report_tables
from kb_cli.report.run_report import make_report
from kb_cli.report.run_source import read_run_source
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.units import quantity
from kb_dataexec.files import writing
from kb_messages import KbError

_ENDINGS = (".html", ".htm")


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write one HTML file that needs no network. An existing file is overwritten.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(run: Path, out: Path | None, as_json: bool) -> None:
    """Say where the time of RUN went, a run folder or a row of a shapes run (RUN/0003).

    The report has the critical path by block and by kernel line, how busy each kind of block was and how much of its
    work was hidden, the roofline, and every PE's own view. With -o it has pictures of all lanes too.
    """
    if out is not None and out.suffix.lower() not in _ENDINGS:
        raise KbError("-o", out.suffix or repr(out.name), ".html")
    source = read_run_source(run)
    report = make_report(source)
    if out is not None:
        lanes = None if source.log is None else lane_pictures(source.log, str(run))
        page = report_page(report, source.text, lanes)
        _write(out, page)
    if as_json:
        emit_json(report)
    elif out is not None:
        emit_lines([report.sentence, *report.notes, f"{out}: {quantity(len(page), 'B')}"])
    else:
        emit_tables(*report_tables(report))


def _write(path: Path, page: bytes) -> None:
    """Write *page* to *path*. The file appears when it is whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path):
            part.write_bytes(page)
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
