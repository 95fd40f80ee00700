"""`--keep`: decides by policy and by size whether data and op log of a run go into its folder, each on its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from kb_cli.run.base.files import CAPTURES, EXPECTED, LOG, MEMORY
from kb_cli.run.base.result import Kept, Policy, RunResult
from kb_cli.run.records.captures import save_captures
from kb_cli.run.records.data import save_expected
from kb_cli.run.simulation.simulate import RunOutcome
from kb_topology import format_nbytes

RUN_LIMIT = 256 << 20
"""The most bytes of data of one run that `auto` keeps, and the most bytes of its log."""
SHAPES_LIMIT = 1 << 30
"""The most bytes of data that `auto` keeps over all runs of a shapes file, and the most bytes of their logs."""


NO_FOLDER = Kept(policy=Policy.NONE, data=False, nbytes=0, why="a run without a folder")
"""The record of a run that writes no folder, and so keeps nothing."""


class Room(NamedTuple):
    """The bytes of data and of logs that `auto` still keeps of the runs of a shapes file, or of a script."""

    data_nbytes: int
    log_nbytes: int

    def without(self, kept: Kept) -> Room:
        """Returns the room that is left beside *kept*."""
        data = kept.nbytes if kept.data else 0
        return Room(self.data_nbytes - data, self.log_nbytes - (kept.log_nbytes if kept.has_log else 0))


def whole_room() -> Room:
    """Returns the room in front of the first run."""
    return Room(SHAPES_LIMIT, SHAPES_LIMIT)


def keep(folder: Path, outcome: RunOutcome, policy: Policy, room: Room, no_data: str = "") -> Kept:
    """Writes the data of *outcome* into *folder*, and leaves its log there. Either is left out where *policy* or a
    limit forbids keeping it.

    Data and log have limits of their own, because a few hundred megabytes of data may have a log of one. Only `auto`
    has limits; *room* is the rest of those that all runs of a shapes file share. *no_data* is the reason for which the
    run has no data, "" where it has some.
    """
    data_nbytes, log_nbytes = _data_nbytes(outcome), _log_nbytes(folder)
    why_no_log = _why_not("log", log_nbytes, outcome, policy, room.log_nbytes)
    why = no_data or _why_not("data", data_nbytes, outcome, policy, room.data_nbytes)
    if why_no_log:
        _remove_log(folder)
    if not why:
        _save_data(folder, outcome)
    return Kept(
        policy=policy,
        data=not why,
        nbytes=data_nbytes,
        why=why,
        log=not why_no_log,
        log_nbytes=log_nbytes,
        why_no_log=why_no_log,
    )


def without_own_folder(result: RunResult) -> RunResult:
    """Returns *result*, of a run whose folder was not written because the data of an earlier equal run lies there."""
    why = f"{result.keep.why or result.keep.log_reason}; the folder keeps the data of an earlier run"
    return replace(result, keep=replace(result.keep, why=why))


def _save_data(folder: Path, outcome: RunOutcome) -> None:
    outcome.initial_memory.save(folder / MEMORY)
    if outcome.expected:
        save_expected(folder / EXPECTED, outcome.expected)
    if outcome.captured:
        save_captures(folder / CAPTURES, outcome.captured)


def _data_nbytes(outcome: RunOutcome) -> int:
    arrays = sum(output.nbytes for output in outcome.expected.values())
    captured = sum(0 if each.value is None else each.value.nbytes for each in outcome.captured)
    return outcome.initial_memory.nbytes_held + arrays + captured


def _log_nbytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / LOG).glob("*"))


def _why_not(what: str, nbytes: int, outcome: RunOutcome, policy: Policy, left_nbytes: int) -> str:
    """Returns the reason for which *what* of *nbytes* bytes is not kept; "" when it is kept."""
    if policy is Policy.NONE:
        return "--keep none"
    if outcome.log is None:
        return "--no-log"
    if policy is Policy.AUTO and nbytes > RUN_LIMIT:
        size = f"{nbytes / 2**20:.0f} MiB of {what}"
        return f"{size}, more than the {format_nbytes(RUN_LIMIT)} --keep auto keeps of a run"
    if policy is Policy.AUTO and nbytes > left_nbytes:
        return f"--keep auto keeps {format_nbytes(SHAPES_LIMIT)} of {what} of all runs together"
    return ""


def _remove_log(folder: Path) -> None:
    """Deletes the log that the simulation wrote to *folder*, if there is one."""
    if (folder / LOG).is_dir():
        for file in (folder / LOG).iterdir():
            file.unlink()
        (folder / LOG).rmdir()
