"""`kb verify`: repeat the data pass of a finished run from its folder, and compare again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import UNSET, Struct, UnsetType

from kb_cli.run.data import LOG, load_data, sha256_of
from kb_cli.run.folder import RUN, RunFolderError, read_run
from kb_cli.run.sanitizer import Sanitized, found_something, sanitize_stored
from kb_cli.run.verdict import OutputCheck, Verdict, execute, execute_debugging, judge, refused
from kb_cli.terminal.output import emit_json, emit_lines
from kb_messages import KbError


class Verification(Struct, frozen=True, kw_only=True):
    """The verdict on one run folder, as `--json` prints it. `verified` is None for a shape without data.

    `sanitizer` is there when it was asked for, and the data is what the run wrote.
    """

    run_dir: str
    benchmark: str
    verified: bool | None
    max_abs_err: float | None
    log_digest: str | None
    outputs: list[OutputCheck]
    refusal: str | None
    sanitizer: Sanitized | UnsetType = UNSET


@click.command("verify")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one object (an array for --shapes), nothing else.")
@click.option("--debug", is_flag=True, help="Hold every op against float64, and stop at the first that is wrong.")
@click.option("--sanitize", is_flag=True, help="Look for missing waits and races between PEs in the log.")
def command(run_dir: Path, as_json: bool, debug: bool, sanitize: bool) -> None:
    """Execute the log of RUN_DIR again and compare with the expected outputs stored there.

    Exits with 0 when all agree, with 1 when they do not, when the log or the data beside it was changed or --sanitize
    found something, and with 2 when there is no data to verify, be it for one of several shapes.

    With --debug, each op is recomputed in float64 from the values that it read, and has to agree within the rounding of
    that one op: what it finds is an op that computes wrongly, not one that the kernel did not mean.
    """
    rows = read_run(run_dir).get("rows")
    asked = (debug, sanitize)
    found = [_verification(run_dir, *asked)] if rows is None else _verify_rows(run_dir, rows, *asked)
    if as_json:
        emit_json(found[0] if rows is None else found)
    else:
        emit_lines(line for each in found for line in _lines(each))
    outcomes = {False if found_something(each.sanitizer) else each.verified for each in found}
    click.get_current_context().exit(1 if False in outcomes else 2 if None in outcomes else 0)


def verify_run(folder: Path, debug: bool = False) -> Verdict:
    """Repeat pass 2 from *folder* alone, with *debug* op by op.

    Raises RunFolderError when that folder holds no data to verify.
    """
    run = read_run(folder)
    _check_verifiable(folder, run)
    changed = [name for name, sha256 in run["files"].items() if not _is_intact(folder / name, sha256)]
    if changed:
        return refused(f"{folder / changed[0]}: got other bytes than the run wrote, needs those of {RUN}")
    try:
        data = load_data(folder)
    except KbError as error:
        return refused(str(error))
    if data.log.digest != run["log_digest"]:
        return refused(f"{folder / LOG}: got a log of digest {data.log.digest}, needs {run['log_digest']}")
    memory = execute_debugging(data.log, data.memory) if debug else execute(data.log, data.memory)
    return judge(data.log, memory, data.expected)


def _check_verifiable(folder: Path, run: dict[str, Any]) -> None:
    kept = run["keep"]
    if not kept["data"]:
        fix = "" if run["flags"]["log"] else " and without --no-log"
        raise RunFolderError(
            str(folder),
            f"no data ({kept['why']})",
            "memory, expected outputs and log",
            f"run again with --keep all{fix}",
        )
    if not run["flags"]["verify"]:
        raise RunFolderError(str(folder), "no expected outputs (--no-verify)", "them", "run again without --no-verify")


def _is_intact(file: Path, sha256: str) -> bool:
    return file.is_file() and sha256_of(file) == sha256


def _verify_rows(run_dir: Path, rows: list[dict[str, Any]], debug: bool, sanitize: bool) -> list[Verification]:
    """Each row's verdict; a row without data is told as such, and is an error only when no row has any."""
    found: list[Verification] = []
    errors: list[RunFolderError] = []
    folders = [run_dir / row["folder"] for row in rows]
    for folder in folders:
        try:
            found.append(_verification(folder, debug, sanitize))
        except RunFolderError as error:
            errors.append(error)
            found.append(_unverified(folder, error))
    if len(errors) == len(folders):
        raise errors[0]
    return found


def _unverified(folder: Path, error: RunFolderError) -> Verification:
    run = read_run(folder)
    return Verification(
        run_dir=str(folder),
        benchmark=run["benchmark"]["name"],
        verified=None,
        max_abs_err=None,
        log_digest=run["log_digest"],
        outputs=[],
        refusal=str(error),
    )


def _verification(folder: Path, debug: bool, sanitize: bool) -> Verification:
    run, verdict = read_run(folder), verify_run(folder, debug)
    return Verification(
        run_dir=str(folder),
        benchmark=run["benchmark"]["name"],
        verified=verdict.ok,
        max_abs_err=verdict.max_abs_err,
        log_digest=run["log_digest"],
        outputs=verdict.outputs,
        refusal=verdict.refusal,
        sanitizer=_sanitized(folder, run) if sanitize and verdict.refusal is None else UNSET,
    )


def _sanitized(folder: Path, run: dict[str, Any]) -> Sanitized:
    data = load_data(folder)
    return sanitize_stored(data.log, data.memory, run)


def _lines(found: Verification) -> list[str]:
    verdict = {True: "ok", False: "FAILED", None: "not verified"}[found.verified]
    texts = [found.refusal] if found.refusal else [check.text for check in found.outputs]
    if isinstance(found.sanitizer, Sanitized):
        texts += found.sanitizer.texts or ["sanitizer: clean"]
    return [f"{found.run_dir}: {verdict}", *(f"  {text}" for text in texts)]
