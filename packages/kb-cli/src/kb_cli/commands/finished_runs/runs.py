"""`kb runs`: lists run folders, and deletes old ones."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.report.tables.runs_tables import pruned_lines, runs_tables
from kb_cli.run.folders.run_list import list_runs, prune_runs
from kb_cli.terminal.checked_command import CheckedCommand, FiniteRange
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_messages import BenchmarkError


@click.command("runs", cls=CheckedCommand)
@click.argument("out", type=click.Path(path_type=Path), default=Path("kb-runs"))
@click.option("--prune", is_flag=True, help="Remove run folders; say which with --keep, --older or both.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="With --prune: the N newest stay.")
@click.option(
    "--older", type=FiniteRange(min=0), metavar="DAYS", help="With --prune: only folders older than DAYS days go."
)
@click.option("--dry-run", is_flag=True, help="With --prune: list the folders that would go, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one array, with --prune one object, nothing else.")
def command(out: Path, prune: bool, keep: int | None, older: float | None, dry_run: bool, as_json: bool) -> None:
    """List the run folders in OUT (kb-runs), the newest first: latency, verdict, size and when they were written.

    With --prune, remove the folders that neither --keep nor --older spares, and the hidden folders of killed runs. A
    folder that is no run folder, or that holds a file which no run wrote, always stays.
    """
    if not prune and (keep is not None or older is not None or dry_run):
        raise BenchmarkError("kb runs", "--keep, --older or --dry-run alone", "--prune beside it", "add --prune")
    if prune and keep is None and older is None:
        raise BenchmarkError("--prune", "neither --keep N nor --older DAYS", "one of them", "--keep 0 means all")
    if prune:
        pruned = prune_runs(out, keep, older, dry_run)
        if as_json:
            emit_json(pruned)
        else:
            emit_lines(pruned_lines(pruned))
        return
    runs = list_runs(out)
    if as_json:
        emit_json(runs)
    else:
        emit_tables(*runs_tables(runs))
