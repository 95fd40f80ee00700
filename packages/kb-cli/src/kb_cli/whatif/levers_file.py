"""`levers.json` of a run folder: the levers that were measured after the run, so that nobody measures them again.

How many there are depends on the time that measuring took. So the file belongs to no manifest, and holds for the run
and the versions of kb that it names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.run.base.files import LEVERS, RunFolderError, write_whole
from kb_cli.whatif.lever_chances import TriedLever
from kb_dataexec.files import file_in, read_json


class MeasuredLever(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latency in picoseconds with the values `set`, and the busiest block then, as sentences name it, with its
    share of the time.

    Of a workload, the latency counts the kernels of the whole model, and `ops_ps` has that of each op once.
    """

    set: dict[str, str]
    latency_ps: int
    then: str
    then_busy: float
    ops_ps: list[int] | UnsetType = UNSET

    @classmethod
    def from_lever(cls, lever: TriedLever) -> MeasuredLever | None:
        """Returns the measurement of *lever*; None for one that was not measured."""
        if lever.latency_ps is None or lever.then is None or lever.then_busy is None:
            return None
        return cls(
            set=lever.set,
            latency_ps=lever.latency_ps,
            then=lever.then,
            then_busy=lever.then_busy,
            ops_ps=lever.ops_ps,
        )

    def of(self, lever: TriedLever, before_ps: int) -> TriedLever:
        """Returns *lever* with this measurement; *before_ps* is the latency of the run."""
        return replace(
            lever,
            latency_ps=self.latency_ps,
            gain=1 - self.latency_ps / before_ps if before_ps else 0.0,
            then=self.then,
            then_busy=self.then_busy,
            ops_ps=self.ops_ps,
        )


class LeversJson(Struct, frozen=True, kw_only=True):
    """The whole file. `run` is the sha256 in the run's run.json, which states the chip, too. `seal` is the sha256 of
    the measurements, in hex, so that a damaged file is noticed.
    """

    format: Literal["kernbench-levers"] = "kernbench-levers"
    version: Literal[1] = 1
    run: str
    versions: dict[str, str]
    measured: list[MeasuredLever]
    seal: str


def _seal(measured: Sequence[MeasuredLever]) -> str:
    return hashlib.sha256(msgspec.json.encode(measured)).hexdigest()


def read_measured(folder: Path, run_sha256: str, versions: Mapping[str, str]) -> list[MeasuredLever]:
    """Returns the levers in *folder* that were measured for the run *run_sha256* by *versions* of kb; none for others.

    Raises RunFolderError for a file of another form, or whose measurements are not as they were written.
    """
    if not (folder / LEVERS).exists():
        return []
    found = read_json(file_in(folder, LEVERS, RunFolderError), LeversJson, RunFolderError)
    if found.seal != _seal(found.measured):
        got = "other measurements than kb wrote"
        raise RunFolderError(str(folder / LEVERS), got, "its own", "delete the file, and run kb report again")
    return found.measured if (found.run, found.versions) == (run_sha256, dict(versions)) else []


def write_measured(
    folder: Path, run_sha256: str, versions: Mapping[str, str], measured: Sequence[MeasuredLever]
) -> None:
    """Writes *measured* to levers.json of *folder*. An existing file is replaced."""
    whole = LeversJson(run=run_sha256, versions=dict(versions), measured=list(measured), seal=_seal(measured))
    write_whole(folder / LEVERS, msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
