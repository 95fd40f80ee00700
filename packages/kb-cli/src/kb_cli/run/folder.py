"""Run folders: written under a temporary name beside the final one, and renamed when they are complete."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np

from kb_messages import KbError

FORMAT, FORMAT_VERSION = "kernbench-run", 1
RUN, WALL, TOPOLOGY, BENCH = "run.json", "wall.json", "topology.yaml", "bench.py"
_PACKAGES = ("kb-messages", "kb-topology", "kb-plans", "kb-dataexec", "kb-engine", "kb-components", "kb-cli")


class RunFolderError(KbError):
    """A run folder that cannot be written, read, or used for what was asked."""


class NewRunFolder:
    """A folder in the making: `path` until `commit`, which gives it the name *final* and replaces what had it.

    Leaving the `with` block without `commit` removes it. Two processes may commit to one name: each folder is whole,
    and the last one stays.
    """

    def __init__(self, out: Path, name: str) -> None:
        self.final = out / name
        self.path = out / _beside(name)
        self._committed = False

    def __enter__(self) -> NewRunFolder:
        try:
            self.path.mkdir(parents=True)
        except OSError as error:
            got = f"a folder that cannot be written ({error.strerror})"
            raise RunFolderError(str(self.final.parent), got, "a folder for results", "name one with --out") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            shutil.rmtree(self.path, ignore_errors=True)

    def commit(self) -> None:
        """Give the folder its final name."""
        while True:
            try:
                self.path.rename(self.final)
                break
            except OSError:
                if not self.final.is_dir():
                    if self.final.exists():
                        raise RunFolderError(str(self.final), "a file of that name", "a folder or nothing") from None
                    raise
                _remove(self.final)
        self._committed = True


def _remove(folder: Path) -> None:
    """Take *folder* away whole: out of its name first, so that nobody meets half of it."""
    old = folder.with_name(_beside(folder.name))
    try:
        folder.rename(old)
    except FileNotFoundError:  # another process was faster
        return
    shutil.rmtree(old, ignore_errors=True)


def _beside(name: str) -> str:
    return f".{name}.{os.getpid()}-{secrets.token_hex(4)}"


def folder_name(bench_name: str, config: dict[str, Any]) -> str:
    """`<bench>-<12 hex digits of the hash of the configuration>`."""
    safe = re.sub(r"[^\w.-]+", "_", bench_name).strip(".") or "bench"
    return f"{safe}-{hashlib.sha256(_json(config)).hexdigest()[:12]}"


def versions() -> dict[str, str]:
    """kb's packages, part of what a run is a run of."""
    return {name: version(name) for name in _PACKAGES}


def environment() -> dict[str, str]:
    """What a run is made with: recorded, but the same run elsewhere has the same name."""
    return {"python": platform.python_version(), "numpy": np.__version__}


def write_json(path: Path, value: Any) -> None:
    """*value*, indented; dicts keep their order, so the same value gives the same bytes."""
    path.write_bytes(msgspec.json.format(_json(value), indent=1) + b"\n")


def read_json(path: Path) -> Any:
    """The value that *path* holds. Raises RunFolderError when it is missing or no JSON."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        got = "no such file"
    except (OSError, msgspec.DecodeError) as error:
        got = f"a file that cannot be read ({error})"
    raise RunFolderError(str(path), got, "JSON written by kb")


def read_run(folder: Path) -> dict[str, Any]:
    """The run.json of *folder*. Raises RunFolderError when that is no run folder."""
    if not (folder / RUN).is_file():
        got = "a folder without run.json" if folder.is_dir() else "no such folder"
        raise RunFolderError(str(folder), got, "the folder of a run", "kb run prints its name")
    run = read_json(folder / RUN)
    found = (run.get("format"), run.get("version")) if isinstance(run, dict) else None
    if found != (FORMAT, FORMAT_VERSION):
        raise RunFolderError(str(folder / RUN), f"format {found}", f"{FORMAT} version {FORMAT_VERSION}")
    return dict(run)


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
