"""`--keep`: decides by policy and by size whether the data of a run goes into its folder."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from kb_cli.run.base.files import CAPTURES, EXPECTED, LOG, MEMORY
from kb_cli.run.base.result import Kept, Policy, RunResult
from kb_cli.run.records.captures import save_captures
from kb_cli.run.records.data import save_expected
from kb_cli.run.simulation.simulate import RunOutcome
from kb_topology import format_nbytes

RUN_LIMIT = 256 << 20
"""The most bytes of one run that `auto` keeps."""
SHAPES_LIMIT = 1 << 30
"""The most bytes that `auto` keeps over all runs of a shapes file."""


NO_FOLDER = Kept(policy=Policy.NONE, data=False, nbytes=0, why="a run without a folder")
"""The record of a run that writes no folder, and so keeps nothing."""


def keep(folder: Path, outcome: RunOutcome, policy: Policy, left_nbytes: int = SHAPES_LIMIT) -> Kept:
    """Writes the data of *outcome* into *folder*, or deletes its log there when *policy* or a limit forbids keeping it.

    *left_nbytes* is the rest of the limit that all runs of a shapes file share. Only `auto` has limits.
    """
    nbytes = _nbytes(folder, outcome)
    why = _why_not(nbytes, outcome, policy, left_nbytes)
    if why:
        return keep_nothing(folder, outcome, policy, why)
    outcome.initial_memory.save(folder / MEMORY)
    if outcome.expected:
        save_expected(folder / EXPECTED, outcome.expected)
    if outcome.captured:
        save_captures(folder / CAPTURES, outcome.captured)
    return Kept(policy=policy, data=True, nbytes=nbytes)


def keep_nothing(folder: Path, outcome: RunOutcome, policy: Policy, why: str) -> Kept:
    """Deletes the log in *folder*, and returns the record that says *why* no data is kept."""
    nbytes = _nbytes(folder, outcome)
    _remove_log(folder)
    return Kept(policy=policy, data=False, nbytes=nbytes, why=why)


def without_own_folder(result: RunResult) -> RunResult:
    """Returns *result*, of a run whose folder was not written because the data of an earlier equal run lies there."""
    why = f"{result.keep.why}; the folder keeps the data of an earlier run"
    return replace(result, keep=replace(result.keep, why=why))


def _nbytes(folder: Path, outcome: RunOutcome) -> int:
    log = sum(file.stat().st_size for file in (folder / LOG).glob("*"))
    arrays = sum(output.nbytes for output in outcome.expected.values())
    captured = sum(0 if each.value is None else each.value.nbytes for each in outcome.captured)
    return outcome.initial_memory.nbytes_held + arrays + captured + log


def _why_not(nbytes: int, outcome: RunOutcome, policy: Policy, left_nbytes: int) -> str:
    """Returns the reason for which the data is not kept; "" when it is kept."""
    if policy is Policy.NONE:
        return "--keep none"
    if outcome.log is None:
        return "--no-log"
    if policy is Policy.AUTO and nbytes > RUN_LIMIT:
        return f"{nbytes / 2**20:.0f} MiB of data, more than the {format_nbytes(RUN_LIMIT)} --keep auto keeps of a run"
    if policy is Policy.AUTO and nbytes > left_nbytes:
        return f"--keep auto keeps {format_nbytes(SHAPES_LIMIT)} of all shapes together"
    return ""


def _remove_log(folder: Path) -> None:
    """Deletes the log that the simulation wrote to *folder*, if there is one."""
    if (folder / LOG).is_dir():
        for file in (folder / LOG).iterdir():
            file.unlink()
        (folder / LOG).rmdir()
