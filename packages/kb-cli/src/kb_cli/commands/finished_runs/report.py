"""`kb report`: where the time of a finished run went, on the terminal or as one HTML file."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click
from msgspec import UnsetType

from kb_cli.report.data.run_report import TimeReport, make_report, with_known_levers, with_levers, without_levers
from kb_cli.report.data.run_source import RunSource, read_run_source
from kb_cli.report.html.page import report_page
from kb_cli.report.pictures.lanes import lane_pictures
from kb_cli.report.tables.report_tables import report_tables
from kb_cli.run.base.files import write_whole
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.records.wall_time import timing_s
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.lever_option import lever_option
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.output_file import check_folder
from kb_cli.terminal.units import quantity
from kb_cli.whatif.budget import REPORT_S, Budget
from kb_cli.whatif.levers import levers_of_folder
from kb_messages import KbError

_ENDINGS = (".html", ".htm")
_MOST_TIMES = 4
"""How often the time of measuring a run may have taken for a lever to be measured in it. Source: assumed."""


@click.command("report", cls=CheckedCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write one HTML file that needs no network. An existing file is overwritten.",
)
@lever_option(
    "Measure up to N values of the chip that would gain most, within 30 s, or 600 s for a model. "
    "This runs bench.py of RUN. 0 and none tell "
    "none.  [default: as far as half a second goes for a bundled benchmark; for any other, those measured before]"
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
    if most != 0:
        report = _with_levers(report, source, most, as_json)
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


def _with_levers(report: TimeReport, source: RunSource, most: int | None, as_json: bool) -> TimeReport:
    """Adds levers to *report*. Where none were asked for (*most* is None), an error becomes a note."""
    if most is None and not source.is_of_kb:
        return with_known_levers(report, source)
    is_workload = not isinstance(report.workload_ops, UnsetType)
    budget = Budget(work_s=_work_s(source)) if most is None else Budget.asked(is_workload)
    printing = redirect_stdout(sys.stderr) if as_json else nullcontext()  # of the benchmark, as it is imported
    try:
        with printing, RunProgress() as progress:
            found = levers_of_folder(source.folder, budget, most, progress, only_bundled=most is None)
    except KbError as error:
        if most is not None:
            raise
        return without_levers(report, error)
    return with_levers(report, found)


def _work_s(source: RunSource) -> float:
    """Returns the seconds for measuring without being asked: none for a run that took much longer than that, because a
    simulation can be ended only when its clock moves.
    """
    took_s = timing_s(source.folder)
    return 0.0 if took_s is not None and took_s > _MOST_TIMES * REPORT_S else REPORT_S
