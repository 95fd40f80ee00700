"""The files of a run folder: their names and format, and writing them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from kb_cli.run.base.folder_owner import owner
from kb_dataexec.files import writing
from kb_messages import KbError

FORMAT, FORMAT_VERSION = "kernbench-run", 2
RUN, WALL, TOPOLOGY, BENCH, USAGE = "run.json", "wall.json", "topology.yaml", "bench.py", "usage.json"
WHERE = "where.json"
MEMORY, EXPECTED, LOG, INPUTS, CAPTURES = "memory", "expected", "log", "inputs", "captures"
"""Folders in a run folder."""
BESIDE = "beside"
"""The folder of the files that a benchmark imports from where it lies."""


class RunFolderError(KbError):
    """A run folder that cannot be written, or cannot be read, or lacks the data that a command needs."""


def folder_path(folder: object) -> Path:
    """*folder*, a path as a program gives it. Raises RunFolderError for what is no path."""
    if not isinstance(folder, (str, os.PathLike)):
        raise RunFolderError("folder", repr(folder), "the path of a run folder")
    return Path(folder)


def write_whole(path: Path, content: bytes) -> None:
    """Write *content* to *path*, in place of what is there. The file appears when it is whole."""
    part = path.with_name(f".{path.name}.{owner()}.part")
    try:
        with writing(path):
            part.write_bytes(content)
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write *value*, indented. Dicts keep their order, so equal values give equal bytes."""
    with writing(path):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
