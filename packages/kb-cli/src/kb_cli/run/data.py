"""The data of a run folder: initial memory, expected outputs and log, enough to repeat pass 2 without anything else."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.benchmark.expected import Expected
from kb_cli.run.folder import RunFolderError, read_json, write_json
from kb_cli.run.simulate import RunOutcome
from kb_dataexec import MemoryStore, OpLog, read_log
from kb_engine import Tensor
from kb_topology import format_nbytes

MEMORY, EXPECTED, LOG = "memory", "expected", "log"
RUN_LIMIT = 256 << 20
SHAPES_LIMIT = 1 << 30


class Policy(StrEnum):
    """What `--keep` may say."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


class Kept(Struct, frozen=True, kw_only=True):
    """Whether a run's data is in its folder, how many bytes it is, and why not."""

    policy: Policy
    data: bool
    nbytes: int
    why: str = ""


class RunData(NamedTuple):
    """What `kb verify` works on."""

    log: OpLog
    memory: MemoryStore
    expected: dict[str, Expected]


def keep(folder: Path, outcome: RunOutcome, policy: Policy, left_nbytes: int = SHAPES_LIMIT) -> Kept:
    """Write the outcome's data into *folder*, or take its log away when *policy* or a limit says so.

    *left_nbytes* is what this run may still take of the limit of all runs together; only `auto` has limits.
    """
    nbytes = _nbytes(folder, outcome)
    why = _why_not(nbytes, outcome, policy, left_nbytes)
    if why:
        remove_log(folder)
        return Kept(policy=policy, data=False, nbytes=nbytes, why=why)
    outcome.initial_memory.save(folder / MEMORY)
    if outcome.expected:
        save_expected(folder / EXPECTED, outcome.expected)
    return Kept(policy=policy, data=True, nbytes=nbytes)


def remove_log(folder: Path) -> None:
    """Delete the log that was streamed to *folder*, if there is one."""
    if (folder / LOG).is_dir():
        for file in (folder / LOG).iterdir():
            file.unlink()
        (folder / LOG).rmdir()


def _nbytes(folder: Path, outcome: RunOutcome) -> int:
    log = sum(file.stat().st_size for file in (folder / LOG).glob("*"))
    arrays = sum(output.reference.nbytes + output.allowed.nbytes for output in outcome.expected.values())
    return outcome.initial_memory.nbytes_held + arrays + log


def _why_not(nbytes: int, outcome: RunOutcome, policy: Policy, left_nbytes: int) -> str:
    if policy is Policy.NONE:
        return "--keep none"
    if outcome.log is None:
        return "--no-log"
    if policy is Policy.AUTO and nbytes > RUN_LIMIT:
        return f"{nbytes / 2**20:.0f} MiB of data, more than the {format_nbytes(RUN_LIMIT)} --keep auto keeps of a run"
    if policy is Policy.AUTO and nbytes > left_nbytes:
        return f"--keep auto keeps {format_nbytes(SHAPES_LIMIT)} of all shapes together"
    return ""


def save_expected(folder: Path, expected: dict[str, Expected]) -> None:
    """Each output's reference and allowed error as .npy, and an index of where the outputs lie."""
    folder.mkdir()
    index = []
    for number, (name, output) in enumerate(expected.items()):
        files = {"reference": f"{number:06d}.npy", "allowed": f"{number:06d}.allowed.npy"}
        np.save(folder / files["reference"], output.reference)
        np.save(folder / files["allowed"], output.allowed)
        index.append({"name": name, **files, "tensor": msgspec.to_builtins(output.tensor)})
    write_json(folder / "index.json", index)


def load_expected(folder: Path) -> dict[str, Expected]:
    """What `save_expected` wrote. Raises RunFolderError when it is damaged."""
    index = read_json(folder / "index.json")
    try:
        return {
            entry["name"]: Expected(
                msgspec.convert(entry["tensor"], Tensor),
                _load(folder / entry["reference"]),
                _load(folder / entry["allowed"]),
            )
            for entry in index
        }
    except (KeyError, TypeError, msgspec.ValidationError, OSError, ValueError, EOFError) as error:
        raise RunFolderError(str(folder), f"damaged references ({error})", "what kb run wrote") from None


def checksums(folder: Path) -> dict[str, str]:
    """The sha256 of every file of memory and expected outputs, by its path in *folder*."""
    files = sorted(file for part in (MEMORY, EXPECTED) for file in (folder / part).glob("*"))
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}


def load_data(folder: Path) -> RunData:
    """Log, initial memory and expected outputs of *folder*. Raises KbErrors for what is damaged."""
    return RunData(read_log(folder / LOG), MemoryStore.load(folder / MEMORY), load_expected(folder / EXPECTED))


def sha256_of(file: Path) -> str:
    """The digest of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _load(file: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(file, allow_pickle=False)
    return array
