"""`run.json`: what a run folder claims. Its last key is a hash of the other keys, so that a changed result is seen."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from kb_cli.benchmark.check_mode import CheckMode
from kb_cli.benchmark.recorded_call import RecordedCall
from kb_cli.benchmark.script_record import RecordedScript
from kb_cli.run.files import FORMAT, FORMAT_VERSION, RUN, RunFolderError, write_json
from kb_cli.run.result_parts import Kept
from kb_cli.run.run_result import RunResult
from kb_dataexec.files import decode_json, file_in, read_bytes, read_json


class RanBenchmark(Struct, frozen=True, kw_only=True):
    """The benchmark of a run: its name, its file's name, and the sha256 of the file.

    `beside` has the sha256 of each file that it imports from its folder, by its path there.
    """

    name: str
    file: str
    sha256: str
    beside: dict[str, str] = {}


class RanTopology(Struct, frozen=True, kw_only=True):
    """The chip of a run."""

    name: str
    digest: str


class RunFlags(Struct, frozen=True, kw_only=True):
    """Which steps the run did, and how it was told to compare outputs."""

    verify: bool
    log: bool
    check: CheckMode = CheckMode.AUTO


class FileClaim(Struct, frozen=True, kw_only=True):
    """The length in bytes and the sha256, in hex, of one file of the folder."""

    nbytes: int
    sha256: str


class RunJson(Struct, frozen=True, kw_only=True):
    """The run.json of one run. `files` has every file of the folder, except run.json and wall.json.

    `call` is there for a run of `kernbench.run`, which repeats the call in place of a benchmark's methods, and `script`
    for a launch of a script under `kb exec`, which runs again up to that launch.
    """

    format: Literal["kernbench-run"]
    version: int
    benchmark: RanBenchmark
    topology: RanTopology
    seed: int
    flags: RunFlags
    versions: dict[str, str]
    environment: dict[str, str]
    params: dict[str, Any]
    inputs: dict[str, str]
    log_digest: str | None
    keep: Kept
    files: dict[str, FileClaim]
    results: RunResult
    sha256: str
    call: RecordedCall | None = None
    script: RecordedScript | None = None


class RowClaim(Struct, frozen=True, kw_only=True):
    """One row of a shapes file: its folder, its figures, and the `sha256` at the end of its run.json."""

    folder: str
    shape: dict[str, Any]
    latency_ps: int
    verified: bool | None
    sha256: str
    by_sample: bool = False


class RowsJson(Struct, frozen=True, kw_only=True):
    """The run.json above the folders of the rows of a shapes file."""

    format: Literal["kernbench-run"]
    version: int
    benchmark: RanBenchmark
    topology: RanTopology
    seed: int
    flags: RunFlags
    versions: dict[str, str]
    environment: dict[str, str]
    rows: list[RowClaim]
    sha256: str


def write_run(folder: Path, fields: dict[str, Any]) -> str:
    """Write *fields*, and the hash over them, to the run.json of *folder*; the hash, in hex."""
    plain = json.loads(msgspec.json.encode(fields))
    plain.pop("sha256", None)
    sealed = {**plain, "sha256": _content_sha256(plain)}
    write_json(folder / RUN, sealed)
    return str(sealed["sha256"])


def read_run(folder: Path) -> RunJson | RowsJson:
    """The run.json of *folder*. Raises RunFolderError when *folder* is no run folder of this format."""
    fields = _fields(folder)
    found = (fields.get("format"), fields.get("version"))
    if found != (FORMAT, FORMAT_VERSION):
        got = f"format {str(found[0])[:80]!r} version {str(found[1])[:20]}"
        fix = "run the benchmark again" if found[0] == FORMAT else ""
        raise RunFolderError(str(folder / RUN), got, f"{FORMAT} version {FORMAT_VERSION}", fix)
    kind: type[RunJson | RowsJson] = RowsJson if "rows" in fields else RunJson
    return decode_json(read_bytes(folder / RUN, RunFolderError), kind, str(folder / RUN), RunFolderError)


def read_one_run(folder: Path) -> RunJson:
    """The run.json of the one run in *folder*. Raises RunFolderError for the runs of a shapes file too."""
    run = read_run(folder)
    if isinstance(run, RunJson):
        return run
    row = folder / (run.rows[0].folder if run.rows else "0000")
    raise RunFolderError(
        str(folder), "the folder of several runs", "the folder of one run", f"name a row, such as {row}"
    )


def is_sealed(folder: Path) -> bool:
    """Whether the run.json of *folder* holds what the run wrote there. Raises RunFolderError when it cannot be read."""
    fields = _fields(folder)
    return bool(fields.pop("sha256", None) == _content_sha256(fields))


def _fields(folder: Path) -> dict[str, Any]:
    if not folder.is_dir() or not os.path.lexists(folder / RUN):
        got, fix = "no such folder", "kb run prints its name"
        if folder.is_dir():
            got = "a folder without run.json"
        elif folder.exists():
            got, fix = "a file", f"{fix}, and kb replay --out makes one of a .kbrun file"
        raise RunFolderError(str(folder), got, "the folder of a run", fix)
    return read_json(file_in(folder, RUN, RunFolderError), dict[str, Any], RunFolderError)


def _content_sha256(fields: dict[str, Any]) -> str:
    """The sha256 of *fields* as compact ASCII JSON. Blanks in the file do not matter; the order of keys does."""
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()
