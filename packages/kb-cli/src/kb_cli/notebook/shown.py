"""What a notebook and a prompt show of a result: a run, a report, a sweep, or a comparison."""

from __future__ import annotations

from kb_cli.compare.comparison import RunComparison
from kb_cli.face.kernel_run import KernelRun
from kb_cli.notebook.cell_style import in_cell
from kb_cli.notebook.comparison_cell import comparison_cell
from kb_cli.notebook.run_cell import report_of, run_cell
from kb_cli.notebook.sweep_cell import MOST_ROWS, sweep_cell
from kb_cli.report.data.run_report import TimeReport
from kb_cli.report.tables.compare_tables import comparison_parts
from kb_cli.report.tables.report_tables import report_tables
from kb_cli.report.tables.sweep_tables import sweep_tables
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.output import as_text

Shown = KernelRun | TimeReport | SweepResult | RunComparison


def html_of(found: Shown) -> str:
    """Returns *found* as an element of HTML with its style, and without script."""
    if isinstance(found, KernelRun):
        return in_cell(*run_cell(report_of(found)))
    if isinstance(found, TimeReport):
        return in_cell(*run_cell(found))
    return in_cell(*(sweep_cell(found) if isinstance(found, SweepResult) else comparison_cell(found)))


def text_of(found: Shown) -> str:
    """Returns *found* as lines of text: what the command prints that shows it."""
    if isinstance(found, KernelRun):
        return str(found)
    if isinstance(found, TimeReport):
        parts = report_tables(found)
    elif isinstance(found, SweepResult):
        parts = list(sweep_tables(found, MOST_ROWS))
    else:
        parts = list(comparison_parts(found))
    return as_text(*parts).rstrip()
