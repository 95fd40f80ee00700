"""`kb verify`: checks a finished run again, from its folder alone."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.report.elements.verdicts import failed_line, failure_causes, verification_lines
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.records.run_json import RowsJson, read_run
from kb_cli.run.simulation.sanitizer import found_something
from kb_cli.run.simulation.verify_folder import Verification, verify_run_dir
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_lines


@click.command("verify", cls=CheckedCommand)
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one object (an array for --shapes), nothing else.")
@click.option("--debug", is_flag=True, help="Compare every op with float64, and stop at the first wrong op.")
@click.option("--sanitize", is_flag=True, help="Look for missing waits and races between PEs in the log.")
def command(run_dir: Path, as_json: bool, debug: bool, sanitize: bool) -> None:
    """Execute the log of RUN_DIR again and compare with the expected outputs stored there.

    The exit code is 0 when all outputs agree. It is 1 when an output is wrong, when a file is not as the run wrote it,
    or when --sanitize found something. It is 2 when RUN_DIR is no run folder that can be read, or when a run, or one of
    several shapes, has no data to verify or a log too large for this machine's memory.

    A launch of kb exec has no expected outputs, because the script judges its numbers itself. --sanitize searches its
    log all the same, and the exit code is 0 when nothing is found.

    All files but wall.json are covered by hashes. The hashes show damage and carelessness, not a determined forger,
    because nothing is signed. No code of RUN_DIR is run.

    With --debug, each op is computed again in float64 from the values that it read, and must agree within the rounding
    of that one op. This finds an op that computes wrongly, not an op that the kernel did not mean.
    """
    with RunProgress() as progress:
        found = verify_run_dir(run_dir, debug, sanitize, progress)
    if as_json:
        emit_json(found if isinstance(read_run(run_dir), RowsJson) else found[0])
    else:
        emit_lines([*(line for each in found for line in verification_lines(each)), *_last_line(found)])
    outcomes = {_outcome(each) for each in found}
    click.get_current_context().exit(1 if False in outcomes else 2 if None in outcomes else 0)


def _last_line(found: list[Verification]) -> list[str]:
    """The line that says what failed; none if nothing did."""
    causes = [failure_causes(each) for each in found]
    if len(found) == 1:
        return failed_line(causes[0])
    failed = sum(map(bool, causes))
    return failed_line([f"{failed} of {len(found)} runs"] if failed else [])


def _outcome(found: Verification) -> bool | None:
    """Whether everything that was asked for is right; None where it could not be checked."""
    if found_something(found.sanitizer):
        return False
    return True if isinstance(found.numbers, str) else found.verified
