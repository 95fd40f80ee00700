"""`kb compare`: the differences between two runs, and their costs."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.compare.comparison import compare
from kb_cli.compare.side import read_side
from kb_cli.report.tables.compare_tables import comparison_parts
from kb_cli.terminal.checked_command import CheckedCommand, FiniteRange
from kb_cli.terminal.output import emit_json, emit_tables


@click.command("compare", cls=CheckedCommand)
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
@click.option(
    "--fail-above",
    "most_percent",
    type=FiniteRange(min=0),
    metavar="PERCENT",
    help="Exit with 1 when B takes more than PERCENT longer.",
)
@click.option("--blocks", "blocks_alone", is_flag=True, help="Compare blocks alone, for runs of two benchmarks.")
def command(before: Path, after: Path, as_json: bool, most_percent: float | None, blocks_alone: bool) -> None:
    """Compare the run in folder B with the run in folder A: configuration, latency, and where the time went.

    The differences of the rows add up to the difference of the times, to the picosecond. Kernel lines are matched
    through a diff of the two benchmark files. No code of the folders is run.
    """
    found = compare(read_side(before), read_side(after), blocks_alone)
    if as_json:
        emit_json(found)
    else:
        emit_tables(*comparison_parts(found))
    slower = most_percent is not None and found.change_ps * 100 > most_percent * found.latency_ps[0]
    click.get_current_context().exit(1 if slower else 0)
