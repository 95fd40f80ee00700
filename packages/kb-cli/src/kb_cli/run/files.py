"""The JSON files of a run folder: their names and format, and reading and writing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kb_messages import KbError

FORMAT, FORMAT_VERSION = "kernbench-run", 1
RUN, WALL, TOPOLOGY, BENCH = "run.json", "wall.json", "topology.yaml", "bench.py"


class RunFolderError(KbError):
    """A run folder that cannot be written, or cannot be read, or lacks the data that a command needs."""


def write_json(path: Path, value: Any) -> None:
    """Write *value*, indented. Dicts keep their order, so equal values give equal bytes."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def read_json(path: Path) -> Any:
    """The value in the file *path*. Raises RunFolderError when the file is missing or not JSON."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        got = "no such file"
    except (OSError, msgspec.DecodeError) as error:
        got = f"a file that cannot be read ({error})"
    raise RunFolderError(str(path), got, "JSON written by kb")


def read_run(folder: Path) -> dict[str, Any]:
    """The run.json of *folder*. Raises RunFolderError when *folder* is no run folder of this format."""
    if not (folder / RUN).is_file():
        got = "a folder without run.json" if folder.is_dir() else "no such folder"
        raise RunFolderError(str(folder), got, "the folder of a run", "kb run prints its name")
    run = read_json(folder / RUN)
    found = (run.get("format"), run.get("version")) if isinstance(run, dict) else None
    if found != (FORMAT, FORMAT_VERSION):
        raise RunFolderError(str(folder / RUN), f"format {found}", f"{FORMAT} version {FORMAT_VERSION}")
    return dict(run)
