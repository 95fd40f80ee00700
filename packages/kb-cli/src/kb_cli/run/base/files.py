"""The files of a run folder: their names, the version of their format, and functions that write them."""

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
LEVERS = "levers.json"
MEMORY, EXPECTED, LOG, INPUTS, CAPTURES = "memory", "expected", "log", "inputs", "captures"
"""Folders in a run folder."""
BESIDE = "beside"
"""The name of the folder with the files that a benchmark imports from its own folder."""


class RunFolderError(KbError):
    """Raised for a run folder that cannot be written or read, and for one that lacks the data that a command needs."""


def folder_path(folder: object) -> Path:
    """Returns *folder* as a Path. Raises RunFolderError for an object that is no path."""
    if not isinstance(folder, (str, os.PathLike)):
        raise RunFolderError("folder", repr(folder), "the path of a run folder")
    return Path(folder)


def write_whole(path: Path, content: bytes) -> None:
    """Writes *content* to *path* and replaces an existing file. A reader finds the old file or the whole new one."""
    part = path.with_name(f".{path.name}.{owner()}.part")
    try:
        with writing(path):
            part.write_bytes(content)
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes *value* as indented JSON to *path*. Dicts keep their order, so equal values give equal bytes."""
    with writing(path):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
