"""A run in a cell: one sentence, its figures, where the time went as bars, its ops or lines, and the roofline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kb_cli.face.kernel_run import KernelRun
from kb_cli.report.data.run_report import TimeReport, make_report
from kb_cli.report.data.run_source import RunSource
from kb_cli.report.elements.op_cells import cell_tables
from kb_cli.report.elements.page_elements import Markup, bar, element, section, shortened, table
from kb_cli.report.html.page import levers_section, path_section, report_figures
from kb_cli.report.pictures.roofline_picture import roofline_picture
from kb_cli.run.base.files import folder_path
from kb_cli.run.base.model_text import model_rows
from kb_cli.terminal.units import duration, percent

_LINES: Final = 8
_MOST_SOURCE: Final = 64
"""The most characters of a line of source; reports have the whole."""
_OPS: Final = 10
_ROWS: Final = 24
_MOST_NBYTES: Final = 50_000
"""The most bytes of the roofline. With the style and all tables, a cell then has less than 100 kB."""
_OPEN: Final = ("Ops", "The model")
"""The tables of ops that are open; a click opens the others."""


def report_of(run: KernelRun) -> TimeReport:
    """Returns the report of *run*, whether or not it has a folder. Its closing sentence is `run.advice`."""
    found = run.in_memory()
    folder = folder_path(run.folder or ".")
    source = RunSource(folder, found.run, found.where, found.source, found.topology, found.log, beside=found.beside)
    run_dir = "" if run.folder is None else str(run.folder)
    levers = run.measured or UNSET
    return replace(make_report(source), sentence=run.advice, run_dir=run_dir, notes=[], levers=levers)


def run_cell(report: TimeReport) -> Iterator[Markup]:
    """Yields the parts of the cell of *report*."""
    yield element("h1", f"{report.benchmark} on {report.topology}: {duration(report.latency_ps)}")
    yield element("p", report.sentence, class_="sentence")
    yield report_figures(report)
    said = [report.frame, f"Latency on a device: {report.band}" if report.band else ""]
    if not isinstance(report.model, UnsetType):
        said += [f"{name}: {text}" for name, text in model_rows(report.model)]
    yield from (element("p", each, class_="soft") for each in said if each)
    yield from (element("p", each, class_="note") for each in report.notes)
    ops = cell_tables(report.workload_ops, report.model, report.whole_ps, _OPS)
    for each in ops:
        rows = [table(each.headers, each.rows[:_ROWS], wide=each.wide)]
        if len(each.rows) > _ROWS:
            rows.append(element("p", f"{len(each.rows) - _ROWS:,} more rows: the report has all", class_="soft"))
        yield section(each.title, "", *rows) if each.title in _OPEN else _folded(each.title.lower(), *rows)
    yield path_section(report)
    if not ops and any(each.line for each in report.lines):
        yield section("Lines", "", _lines(report))
    if isinstance(report.levers, list):
        yield levers_section(report.levers)
    picture = roofline_picture(report.roofline)
    if picture is not None and len(picture) > _MOST_NBYTES:
        n_marks = len(report.roofline.points)
        yield section("Roofline", f"{n_marks:,} marks are too many for a cell; the report has the picture")
    elif picture is not None:
        drawn = element("figure", picture)
        yield _folded("roofline", drawn) if ops else section("Roofline", "", drawn)


def _folded(title: str, *parts: Markup) -> Markup:
    """Returns *parts* below *title*, which a click opens."""
    return element("details", element("summary", title), *parts)


def _lines(report: TimeReport) -> Markup:
    shown, others = report.lines[:_LINES], report.lines[_LINES:]
    rows = [_row(each.line or "no line", each.share, each.ps, each.text) for each in shown if each.ps]
    if rest := sum(each.ps for each in others):
        rows.append(
            _row(f"{len(others)} other line{'s' * (len(others) != 1)}", sum(each.share for each in others), rest, "")
        )
    return table(("line", "", "share", "time", "source"), rows, text=2, wide=(4,))


def _row(name: str, share: float, ps: int, text: str) -> list[str]:
    return [name, bar(("path", share)), percent(share), duration(ps), element("code", shortened(text, _MOST_SOURCE))]
