"""RunIndex: the runs below a folder, each with a name of its own in addresses of the page."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from time import monotonic, time
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kb_cli.run.base.files import RUN, RunFolderError
from kb_cli.run.base.progress import PROGRESS, Snapshot
from kb_cli.run.folders.run_folder import INTERRUPTED, in_the_making
from kb_cli.run.folders.run_list import ListedRun, listed_run, telling_params
from kb_cli.run.records.run_json import RowsJson, read_run
from kb_dataexec.files import UnreadableJsonError, json_decoder, read_bytes
from kb_messages import KbError


def folders_below(out: Path) -> list[Path]:
    """Returns the folders directly below *out* that are not hidden, by name; none where *out* is not there."""
    try:
        with os.scandir(out) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:  # not there yet, or taken away meanwhile
        return []
    return sorted(out / name for name in names if name[0] != ".")


def address_id(name: str) -> str:
    """Returns a name for addresses: ten hex digits, whatever the name of a folder, so that no path is named."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]


_decode_snapshot: Final = json_decoder(Snapshot)
_FRESH_S: Final = 0.25
"""Seconds for which a look at the folder is good enough, for any number of pages."""
State = Literal["complete", "interrupted", "stuck", "died", "running"]


class NoRunError(KbError):
    """Raised for a run that is not there, or no longer. The answer has the status 404."""

    status = HTTPStatus.NOT_FOUND


class IndexedRow(Struct, frozen=True, kw_only=True):
    """A row of a shapes run. `id` names it in addresses."""

    id: str
    folder: str
    shape: dict[str, object]
    latency_ps: int
    verified: bool | None
    by_sample: bool


class IndexedRun(Struct, frozen=True, kw_only=True):
    """A run of the list. `id` names it in addresses of the page, and `name` is its folder's name.

    `params` are the parameters of a complete run, and `differing` has the ones that differ among listed runs of its
    benchmark, or all where none differ. `progress` is the progress.json of an unfinished run, and None where there is
    none yet. It was written at `updated_at`, in seconds since 1970. The process of a run that `died` is gone. `rows`
    are the rows of a shapes run.
    """

    id: str
    name: str
    state: State
    benchmark: str
    topology: str
    latency_ps: int | None = None
    verified: bool | None = None
    by_sample: bool = False
    nbytes: int | None = None
    when: str | None = None
    params: dict[str, Any] = {}
    differing: str = ""
    rows: list[IndexedRow] = []
    progress: Snapshot | None = None
    updated_at: float | None = None


class RunPlace(NamedTuple):
    """The place of a run. `name` is its folder's name; for a row, the name of the shapes run's folder stands in
    front.
    """

    path: Path
    name: str
    state: State


class _Look(NamedTuple):
    runs: list[IndexedRun]
    places: dict[str, RunPlace]


class RunIndex:
    """The runs directly below *folder*, or the one run in it. Requests name runs by ids that this object gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.title = str(folder)
        self._lock = Lock()
        self._look = _Look([], {})
        self._looked_s = -_FRESH_S
        self._known: dict[Path, tuple[object, tuple[IndexedRun, dict[str, RunPlace]] | None]] = {}

    def runs(self) -> list[IndexedRun]:
        """Returns all runs: the ones that go on first, then the newest."""
        return self._latest().runs

    def place(self, run: str) -> RunPlace:
        """Returns the place of the run with the id *run*. Raises NoRunError when there is none."""
        found = self._latest().places.get(run)
        if found is None:
            raise NoRunError(f"run={run[:40]}", "a run that is not there", f"one of the runs in {self.title}")
        return found

    def _latest(self) -> _Look:
        with self._lock:
            if monotonic() - self._looked_s >= _FRESH_S:
                self._look = self._new_look()
                self._looked_s = monotonic()
            return self._look

    def _new_look(self) -> _Look:
        found, places = list[IndexedRun](), dict[str, RunPlace]()
        for run, of_run in (*self._unfinished(), *self._finished()):
            found.append(run)
            places |= of_run
        apart = telling_params((run.benchmark, run.params) for run in found)
        found = [replace(run, differing=text) for run, text in zip(found, apart, strict=True)]
        return _Look(sorted(found, key=_order), places)

    def _unfinished(self) -> Iterator[tuple[IndexedRun, dict[str, RunPlace]]]:
        for each in in_the_making(self.folder):
            state: State = "died" if each.is_dead else "running"
            progress, updated_at = _progress(each.path)
            name = address_id(each.path.name)
            yield (
                IndexedRun(
                    id=name,
                    name=each.name,
                    state=state,
                    benchmark=each.name.rpartition("-")[0],
                    topology="",
                    progress=progress,
                    updated_at=updated_at,
                ),
                {name: RunPlace(each.path, each.name, state)},
            )

    def _finished(self) -> Iterator[tuple[IndexedRun, dict[str, RunPlace]]]:
        folders = [self.folder] if (self.folder / RUN).is_file() else folders_below(self.folder)
        known = {}
        for folder in folders:
            key = _stamp(folder)
            before = self._known.get(folder)
            known[folder] = before if before is not None and before[0] == key else (key, _finished_run(folder))
        self._known = known
        yield from (each for _, each in known.values() if each is not None)


def _order(run: IndexedRun) -> tuple[bool, float, str]:
    written_s = datetime.fromisoformat(run.when).timestamp() if run.when else time()
    return run.state != "running", -written_s, run.name


def _stamp(folder: Path) -> object:
    """Returns a value that changes when a run is written again."""
    found = []
    for name in (RUN, PROGRESS):
        try:
            stat = (folder / name).stat()
        except OSError:
            continue
        found.append((name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return found


def _finished_run(folder: Path) -> tuple[IndexedRun, dict[str, RunPlace]] | None:
    run = listed_run(folder)
    if run is None:
        return None
    state: State = run.state
    name = address_id(folder.name)
    rows = _rows(folder) if state == "complete" else []
    progress = None if state == "complete" else _progress(folder)[0]
    shown = _indexed_run(name, folder.name.removesuffix(INTERRUPTED), run, rows, progress)
    places = {name: RunPlace(folder, folder.name, state)}
    places |= {row.id: RunPlace(folder / row.folder, f"{folder.name}/{row.folder}", state) for row in rows}
    return shown, places


def _indexed_run(
    run_id: str, name: str, run: ListedRun, rows: list[IndexedRow], progress: Snapshot | None
) -> IndexedRun:
    return IndexedRun(
        id=run_id,
        name=name,
        state=run.state,
        benchmark=run.benchmark,
        topology=run.topology,
        latency_ps=run.latency_ps,
        verified=run.verified,
        by_sample=run.by_sample,
        nbytes=run.nbytes,
        when=run.when,
        params=run.params,
        rows=rows,
        progress=progress,
    )


def _rows(folder: Path) -> list[IndexedRow]:
    try:
        run = read_run(folder)
    except (RunFolderError, OSError):  # taken away meanwhile
        return []
    if not isinstance(run, RowsJson):
        return []
    there = [row for row in run.rows if Path(row.folder).name == row.folder and (folder / row.folder).is_dir()]
    return [
        IndexedRow(
            id=address_id(f"{folder.name}/{row.folder}"),
            folder=row.folder,
            shape=row.shape,
            latency_ps=row.latency_ps,
            verified=row.verified,
            by_sample=row.by_sample,
        )
        for row in there
    ]


def _progress(folder: Path) -> tuple[Snapshot | None, float | None]:
    """Returns the content of progress.json, and the time at which it was written."""
    file = folder / PROGRESS
    try:
        snapshot = _decode_snapshot(read_bytes(file, RunFolderError))
        return snapshot, file.stat().st_mtime
    except (OSError, RunFolderError, UnreadableJsonError):  # not there yet, or of a kb that writes another one
        return None, None
