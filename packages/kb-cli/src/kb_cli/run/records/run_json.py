"""`run.json`, the manifest of a run folder. Its last key is a hash of the other keys, so that a change is noticed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, UnsetType

from kb_cli.benchmark.run_records import CheckMode, RecordedCall, RecordedScript
from kb_cli.run.base.files import FORMAT, FORMAT_VERSION, RUN, RunFolderError, write_json
from kb_cli.run.base.result import Kept, RunResult
from kb_cli.terminal.units import listed
from kb_dataexec.files import decode_json, file_in, read_json


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
    """The steps that the run did, and how it compared outputs."""

    verify: bool
    log: bool
    check: CheckMode = CheckMode.AUTO


class FileClaim(Struct, frozen=True, kw_only=True):
    """One entry of the manifest: the length in bytes and the sha256, in hex, of a file of the folder."""

    nbytes: int
    sha256: str


class RunJson(Struct, frozen=True, kw_only=True):
    """The run.json of one run. `files` has every file of the folder, except run.json and wall.json.

    `call` is there for a run of `kernbench.run`, which repeats the call instead of a benchmark's methods. `script` is
    there for a launch of a script under `kb exec`, which runs again up to that launch.
    """

    format: Literal["kernbench-run"]
    version: int
    benchmark: RanBenchmark
    topology: RanTopology
    seed: Annotated[int, Meta(ge=0)]
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

    @property
    def how_to_keep(self) -> str:
        """What keeps the data of such a run: `run it again with --keep all`, without the options that leave none."""
        is_untold = not self.flags.verify and not isinstance(self.results.workload_ops, UnsetType)
        left_out = [name for name, is_set in (("--no-log", not self.flags.log), ("--no-verify", is_untold)) if is_set]
        return f"run it again with --keep all{f' and without {listed(left_out)}' if left_out else ''}"

    @property
    def how_to_keep_log(self) -> str:
        """What keeps the op log of such a run. The log needs no data."""
        return f"run it again with --keep all{'' if self.flags.log else ' and without --no-log'}"


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
    seed: Annotated[int, Meta(ge=0)]
    flags: RunFlags
    versions: dict[str, str]
    environment: dict[str, str]
    rows: list[RowClaim]
    sha256: str


def write_run(folder: Path, fields: dict[str, Any]) -> str:
    """Writes *fields* and their hash to the run.json of *folder*. Returns the hash, in hex."""
    plain = json.loads(msgspec.json.encode(fields))
    plain.pop("sha256", None)
    sealed = {**plain, "sha256": _content_sha256(plain)}
    write_json(folder / RUN, sealed)
    return str(sealed["sha256"])


def read_run(folder: Path) -> RunJson | RowsJson:
    """Returns the run.json of *folder*. Raises RunFolderError when *folder* is no run folder of this format."""
    return _typed(_fields(folder), str(folder / RUN))


def read_packed_run(content: bytes, where: str) -> RunJson:
    """Returns the run.json of one run from its bytes *content*; *where* is the place in errors.

    Raises RunFolderError for the runs of a shapes file, and for content whose hash does not fit.
    """
    fields = decode_json(content, dict[str, Any], where, RunFolderError)
    run = _typed(fields, where)
    if not isinstance(run, RunJson):
        raise RunFolderError(where, "several runs", "one run")
    if not _is_own(fields):
        raise RunFolderError(where, "other content than the run wrote", "the run's own")
    return run


def _typed(fields: dict[str, Any], where: str) -> RunJson | RowsJson:
    found = (fields.get("format"), fields.get("version"))
    if found != (FORMAT, FORMAT_VERSION):
        got = f"format {str(found[0])[:80]!r} version {repr(found[1])[:20]}"
        fix = "run the benchmark again" if found[0] == FORMAT else ""
        raise RunFolderError(where, got, f"{FORMAT} version {FORMAT_VERSION}", fix)
    kind: type[RunJson | RowsJson] = RowsJson if "rows" in fields else RunJson
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as reason:
        raise RunFolderError(where, f"JSON of another form ({reason})", "the form that kb writes") from None


def read_one_run(folder: Path) -> RunJson:
    """Returns the run.json of the one run in *folder*. Raises RunFolderError for the runs of a shapes file too."""
    run = read_run(folder)
    if isinstance(run, RunJson):
        return run
    row = folder / (run.rows[0].folder if run.rows else "0000")
    raise RunFolderError(
        str(folder), "the folder of several runs", "the folder of one run", f"name a row, such as {row}"
    )


def is_sealed(folder: Path) -> bool:
    """Whether the hash at the end of the run.json of *folder* fits its content. Raises RunFolderError if it cannot
    be read.
    """
    return _is_own(_fields(folder))


def _is_own(fields: dict[str, Any]) -> bool:
    content = {name: value for name, value in fields.items() if name != "sha256"}
    return bool(fields.get("sha256") == _content_sha256(content))


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
    """Returns the sha256 of *fields* as compact ASCII JSON. Blanks in the file do not matter; the order of keys
    does.
    """
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()
