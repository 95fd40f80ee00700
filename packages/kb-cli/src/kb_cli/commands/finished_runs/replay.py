"""`kb replay`: repeats the run of a capsule."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from kb_cli.capsule.replay import replay
from kb_cli.report.tables.replay_tables import replay_tables
from kb_cli.run.base.progress import RunProgress
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_tables


@click.command("replay", cls=CheckedCommand)
@click.argument("capsule", type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help="Run the capsule's own program, which then has all your rights.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the repeated run in a folder there.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(capsule: Path, trust: bool, out: Path | None, as_json: bool) -> None:
    """Repeat the run of CAPSULE, a file that `kb pack` wrote, and say whether it is the same run.

    A benchmark that comes with kb is run from where kb is installed. Any other one is a program in the capsule, and it
    is run with --trust alone. Exit code 1 says that the run is not the same.
    """
    printing = redirect_stdout(sys.stderr) if as_json else nullcontext()  # of the benchmark itself
    with printing, RunProgress() as progress:
        found = replay(capsule, trust, out, progress)
    if as_json:
        emit_json(found)
    else:
        emit_tables(*replay_tables(found))
    click.get_current_context().exit(0 if found.same else 1)
