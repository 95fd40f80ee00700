"""Results of points on disk, each in a file named by its key. Many sweeps share a store, and many processes may.

The key of a point is a hash of everything that decides its result, so the same key means the same result. A file has
the sha256 of its content, so that a changed result is noticed. A file of another version of the format cannot be read;
the key covers the code of kernbench, so no sweep asks for a point that other code has kept.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.run.base.files import write_whole
from kb_cli.sweep.job import Answer
from kb_dataexec.files import UnreadableJsonError, json_decoder, writing
from kb_engine.engine import GROUP
from kb_messages import BenchmarkError, KbError, file_in, read_bytes

_OURS = (
    "kb_messages",
    "kb_topology",
    "kb_plans",
    "kb_dataexec",
    "kb_engine",
    "kb_components",
    "kb_triton",
    "kb_cli",
    "kb_models",
)


class PointKeys:
    """Keys of the points of *loaded*: hex digits for benchmark, chip, all parameters, *seed*, *verify*, and the code.

    The code are the sources of kernbench, of every installed block, and of the files that the benchmark imports from
    its own folder. So a point is simulated again after each change of code.
    """

    def __init__(self, loaded: LoadedBenchmark, seed: int, verify: bool) -> None:
        self._config: dict[str, Any] = {
            "format": 1,
            "benchmark": loaded.sha256,
            "beside": {name: hashlib.sha256(content).hexdigest() for name, content in loaded.beside.items()},
            "code": code_digest(),
            "seed": seed,
            "verify": verify,
        }

    def key(self, chip: str, params: dict[str, object]) -> str:
        """Returns the key of a point: *chip* is the text of the topology file, and *params* are all parameters."""
        config = {**self._config, "chip": hashlib.sha256(chip.encode()).hexdigest(), "params": params}
        return hashlib.sha256(msgspec.json.encode(config, order="sorted")).hexdigest()


@cache
def code_digest() -> str:
    """Returns the sha256, in hex, of all Python sources of kernbench and of the packages that register blocks."""
    blocks = {point.value.partition(":")[0].partition(".")[0] for point in entry_points(group=GROUP)}
    digest = hashlib.sha256()
    for package in sorted({*_OURS, *blocks}):
        for name, path in _sources(package):
            digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(package: str) -> list[tuple[str, Path]]:
    """Returns the Python files of *package* with their names in it, sorted; a package that is one file is that file."""
    spec = find_spec(package)
    if spec is None:
        return []
    roots = [Path(root) for root in spec.submodule_search_locations or ()]
    if not roots:
        return [(package, Path(spec.origin))] if spec.origin else []
    found = {f"{package}/{path.relative_to(root).as_posix()}": path for root in roots for path in root.rglob("*.py")}
    return sorted(found.items())


_FORMAT: Literal["kernbench-point"] = "kernbench-point"
_MOST_NBYTES = 1 << 20


class _Content(Struct, frozen=True, kw_only=True):
    values: dict[str, str]
    answer: Answer


class _Stored(Struct, frozen=True, kw_only=True):
    """A stored answer. `sha256`, in hex, covers the bytes of `content`, a `_Content`."""

    format: Literal["kernbench-point"]
    version: Literal[2]
    sha256: str
    content: msgspec.Raw


_decode_content: Final = json_decoder(_Content)
_decode_stored: Final = json_decoder(_Stored)


class PointStore:
    """The store in *folder*. `damaged` counts files that exist and could not be read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.damaged = 0

    def find(self, key: str) -> Answer | None:
        """Returns the answer under *key*; None when there is none that can be read, so that the point is simulated
        again.
        """
        path = self._path(key)
        if not os.path.lexists(path):
            return None
        try:
            data = read_bytes(file_in(path.parent, path.name, BenchmarkError), BenchmarkError, _MOST_NBYTES)
            stored = _decode_stored(data)
            answer = _decode_content(stored.content).answer
        except (KbError, UnreadableJsonError, OSError):
            self.damaged += 1
            return None
        if answer.key != key or sha256(stored.content).hexdigest() != stored.sha256:
            self.damaged += 1
            return None
        return answer

    def keep(self, answer: Answer, values: dict[str, str]) -> None:
        """Writes *answer* for the point with *values*. The file appears when it is whole."""
        path = self._path(answer.key)
        content = msgspec.json.encode(_Content(values=values, answer=answer))
        digest = sha256(content).hexdigest()
        stored = _Stored(format=_FORMAT, version=2, sha256=digest, content=msgspec.Raw(content))
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(stored) + b"\n")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
