"""Golden times in `kb-golden.json` beside the tests, and their runs, a capsule each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from kb_cli.run.base.files import write_whole
from kb_dataexec.files import decode_json, writing
from kb_messages import BenchmarkError, read_bytes

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of *folder* during the block, so that processes change a file in it one after the other.

    A process that dies releases its lock, and no file is made. Windows has no such lock of a folder, so no process
    waits there. Raises OSError for a folder that cannot be read, and on file systems without locks.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


FILE, RUNS = "kb-golden.json", "kb-golden"
"""The file and the folder of runs, beside the test file."""
_MOST_NBYTES = 64 << 20
_PLAIN = re.compile(r"[A-Za-z0-9_.]+(::[A-Za-z0-9_]+)+(\[[A-Za-z0-9_.]+\])?")
_LONGEST = 71
_CONFLICT = re.compile(rb"^<<<<<<< ", re.MULTILINE)


class Golden(Struct, frozen=True, kw_only=True):
    """The time of a run on a chip, in picoseconds, and the name of its capsule in the folder of runs."""

    latency_ps: int
    chip: str
    run: str


def read_golden(folder: Path) -> dict[str, Golden]:
    """Returns the golden times of the tests in *folder*, by run; {} where there is no file. Raises BenchmarkError."""
    path = folder / FILE
    if not path.exists():
        return {}
    data = read_bytes(path, BenchmarkError, _MOST_NBYTES)
    if _CONFLICT.search(data):
        fix = "keep one side of each conflict, and run pytest --kb-update if neither side is right"
        raise BenchmarkError(str(path), "conflicts of a merge", "one time for each run", fix)
    return decode_json(data, dict[str, Golden], str(path), BenchmarkError)


def write_golden(folder: Path, changed: Mapping[str, Golden]) -> None:
    """Writes *changed* into the file of *folder*. Other times stay, also times that another process writes at the same
    time.

    Keys are sorted, so that a review is short.
    """
    with writing(folder / FILE), locked(folder):
        found = {**read_golden(folder), **changed}
        text = json.dumps({name: msgspec.to_builtins(found[name]) for name in sorted(found)}, indent=1)
        write_whole(folder / FILE, f"{text}\n".encode())


def capsule_name(key: str) -> str:
    """Returns the name of the capsule of run *key*, such as `test_mine.py::test_add[f16]`. No two runs have the same.

    A key that has other characters than letters, digits, `.` and `_`, or that is long, has a hash behind its name.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", key).strip("-")
    if _PLAIN.fullmatch(key) is None or len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    return f"{name}.kbrun"
