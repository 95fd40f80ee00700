"""The data in a run folder: initial memory, expected outputs and log. Verification needs nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kb_cli.benchmark.expected import Expected
from kb_cli.run.files import RunFolderError, read_json, write_json
from kb_dataexec import MemoryStore, OpLog, read_log
from kb_engine import Tensor

MEMORY, EXPECTED, LOG = "memory", "expected", "log"
"""Folders in a run folder."""


class RunData(NamedTuple):
    """All that `kb verify` computes with."""

    log: OpLog
    memory: MemoryStore
    expected: dict[str, Expected]


def load_data(folder: Path) -> RunData:
    """Log, initial memory and expected outputs of the run folder *folder*. Raises a KbError when one is damaged."""
    return RunData(read_log(folder / LOG), MemoryStore.load(folder / MEMORY), load_expected(folder / EXPECTED))


def save_expected(folder: Path, expected: dict[str, Expected]) -> None:
    """Create *folder* with each output's reference and allowed error as .npy, and an index of the output tensors."""
    folder.mkdir()
    index = []
    for number, (name, output) in enumerate(expected.items()):
        files = {"reference": f"{number:06d}.npy", "allowed": f"{number:06d}.allowed.npy"}
        np.save(folder / files["reference"], output.reference)
        np.save(folder / files["allowed"], output.allowed)
        index.append({"name": name, **files, "tensor": msgspec.to_builtins(output.tensor)})
    write_json(folder / "index.json", index)


def load_expected(folder: Path) -> dict[str, Expected]:
    """The outputs that `save_expected` wrote. Raises RunFolderError when a file is damaged."""
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
    """The sha256 of every file of memory and expected outputs, by its path in the run folder *folder*."""
    files = sorted(file for part in (MEMORY, EXPECTED) for file in (folder / part).glob("*"))
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}


def sha256_of(file: Path) -> str:
    """The sha256 of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _load(file: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(file, allow_pickle=False)
    return array
