"""Results of points on disk, each in a file named by its key. Many sweeps share a store, and many processes may.

A file has the sha256 of its content, so that a changed result is seen. A file of another version of the format cannot
be read; the key of a point covers the code of kernbench, so no sweep asks for a point that other code has kept.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from kb_cli.run.files import write_whole
from kb_cli.sweep.job import Answer
from kb_dataexec.files import writing
from kb_messages import BenchmarkError, KbError, file_in, read_bytes

_FORMAT: Literal["kernbench-point"] = "kernbench-point"
_MOST_NBYTES = 1 << 20


class _Content(Struct, frozen=True, kw_only=True):
    values: dict[str, str]
    answer: Answer


class _Stored(Struct, frozen=True, kw_only=True):
    """`sha256`, in hex, is that of the bytes of `content`, a `_Content`."""

    format: Literal["kernbench-point"]
    version: Literal[2]
    sha256: str
    content: msgspec.Raw


class PointStore:
    """The store in *folder*. `damaged` counts files that were there and could not be read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.damaged = 0

    def find(self, key: str) -> Answer | None:
        """The answer under *key*; None when there is none that can be read, so that the point is simulated again."""
        path = self._path(key)
        if not os.path.lexists(path):
            return None
        try:
            data = read_bytes(file_in(path.parent, path.name, BenchmarkError), BenchmarkError, _MOST_NBYTES)
            stored = msgspec.json.decode(data, type=_Stored)
            answer = msgspec.json.decode(stored.content, type=_Content).answer
        except (KbError, msgspec.MsgspecError, OSError):
            self.damaged += 1
            return None
        if answer.key != key or sha256(stored.content).hexdigest() != stored.sha256:
            self.damaged += 1
            return None
        return answer

    def keep(self, answer: Answer, values: dict[str, str]) -> None:
        """Write *answer* for the point with *values*. The file appears when it is whole."""
        path = self._path(answer.key)
        content = msgspec.json.encode(_Content(values=values, answer=answer))
        digest = sha256(content).hexdigest()
        stored = _Stored(format=_FORMAT, version=2, sha256=digest, content=msgspec.Raw(content))
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(stored) + b"\n")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
