"""Files that an option names for output: none of them may be an input."""

from __future__ import annotations

import os
from pathlib import Path

from kb_messages import KbError

_SOURCES = {".py", ".yaml", ".yml", ".csv"}
"""Endings of benchmarks, of what they import, of topologies and of shapes files. kb writes no such file."""


def check_folder(option: str, path: Path) -> None:
    """Raise KbError unless the folder is there in which *path* lies, which *option* names. Called before any work."""
    if not path.parent.is_dir():
        raise KbError(option, f"{path} in a folder that is not there", "a folder that is", f"make {path.parent} first")


def refuse_overwriting(option: str, path: Path, *inputs: Path) -> None:
    """Refuse to write *path*, which *option* names, when the file is one of *inputs*, or may be a source of another.

    Raises KbError. A link and a second name of an input are told too.
    """
    if any(_is_same(path, each) for each in inputs):
        got = f"{path}, an input of this command"
    elif path.suffix.lower() in _SOURCES and path.exists():
        got = f"{path}, a {path.suffix} file that is there"
    else:
        return
    raise KbError(option, got, "a file that may be overwritten", "name another file")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there
        return False
