"""Files and folders that an option names for output: they can be written, and none of them is an input."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from kb_messages import KbError

_SOURCES = {".py", ".yaml", ".yml", ".csv"}
"""Endings of benchmarks, of files that they import, of topologies and of shapes files. kb writes no such file."""


def check_ending(option: str, path: Path, *endings: str) -> None:
    """Raises KbError unless the name of *path*, which *option* names, ends with one of *endings*."""
    if not path.name.endswith(endings):
        raise KbError(option, path.suffix or repr(path.name), " or ".join(endings))


def check_folder(option: str, path: Path) -> None:
    """Raises KbError unless a file can be written in the folder of *path*, which *option* names. Called before any
    work.

    An existing file needs that, too: the new one is written beside it, and takes its place when it is whole.
    """
    if not path.parent.is_dir():
        raise KbError(option, f"{path} in a folder that is not there", "a folder that is", f"make {path.parent} first")
    with _refusing(option, path.parent, path if path.exists() else None):
        _try_to_write(path.parent)


@contextmanager
def made_folder(option: str, folder: Path) -> Iterator[None]:
    """Makes *folder*, which *option* names, and runs the block. Raises KbError for a folder that cannot be written.

    An error of the block deletes the folders that were not there before and are empty.
    """
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    try:
        with _refusing(option, folder):
            folder.mkdir(parents=True, exist_ok=True)
            _try_to_write(folder)
        yield
    except BaseException:
        with suppress(OSError):  # the work has put something there
            for each in missing:
                each.rmdir()
        raise


def _try_to_write(folder: Path) -> None:
    with TemporaryFile(dir=folder):
        pass


@contextmanager
def _refusing(option: str, folder: Path, replaced: Path | None = None) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        got = f"{folder}, a folder that cannot be written ({getattr(error, 'strerror', None) or error})"
        why = "" if replaced is None else f", because a new {replaced.name} is written beside the one that it replaces"
        raise KbError(option, got, f"a folder for results{why}", f"name another one with {option}") from None


def refuse_overwriting(option: str, path: Path, *inputs: Path) -> None:
    """Raises KbError when *path*, which *option* names, is one of *inputs*, or may be the source of another program.

    A link to an input, and a second name of it, are refused too.
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
