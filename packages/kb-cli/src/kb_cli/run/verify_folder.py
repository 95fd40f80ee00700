"""Verification of a finished run from its folder alone: executes the log again and compares the outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from kb_cli.run.data import LOG, load_data, sha256_of
from kb_cli.run.files import RUN, RunFolderError, read_run
from kb_cli.run.sanitizer import Sanitized, sanitize_stored
from kb_cli.run.verdict import OutputCheck, Verdict, execute, execute_debugging, judge, refused
from kb_messages import KbError


class Verification(Struct, frozen=True, kw_only=True):
    """The verdict on one run folder, as `kb verify --json` prints it.

    `verified` is None for a shape without data. `sanitizer` is missing unless it was asked for and the data is intact.
    """

    run_dir: str
    benchmark: str
    verified: bool | None
    max_abs_err: float | None
    log_digest: str | None
    outputs: list[OutputCheck]
    refusal: str | None
    sanitizer: Sanitized | UnsetType = UNSET


def verify_folder(folder: Path, debug: bool = False, sanitize: bool = False) -> Verification:
    """Verify the run in *folder*, op by op with *debug*, and search its log for hazards with *sanitize*.

    Raises RunFolderError when *folder* holds no data to verify.
    """
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


def verify_rows(folders: list[Path], debug: bool = False, sanitize: bool = False) -> list[Verification]:
    """Verify each row of a shapes file. Raises RunFolderError when no row has data; otherwise such rows are listed."""
    found: list[Verification] = []
    errors: list[RunFolderError] = []
    for folder in folders:
        try:
            found.append(verify_folder(folder, debug, sanitize))
        except RunFolderError as error:
            errors.append(error)
            found.append(_unverified(folder, error))
    if len(errors) == len(folders):
        raise errors[0]
    return found


def verify_run(folder: Path, debug: bool = False) -> Verdict:
    """Repeat pass 2 from *folder* alone, op by op with *debug*. A changed file or log makes the verdict a refusal.

    Raises RunFolderError when *folder* holds no data to verify.
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
        needs = "memory, expected outputs and log"
        fix = "" if run["flags"]["log"] else " and without --no-log"
        raise RunFolderError(str(folder), f"no data ({kept['why']})", needs, f"run again with --keep all{fix}")
    if not run["flags"]["verify"]:
        raise RunFolderError(str(folder), "no expected outputs (--no-verify)", "them", "run again without --no-verify")


def _is_intact(file: Path, sha256: str) -> bool:
    return file.is_file() and sha256_of(file) == sha256


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


def _sanitized(folder: Path, run: dict[str, Any]) -> Sanitized:
    data = load_data(folder)
    return sanitize_stored(data.log, data.memory, run)
