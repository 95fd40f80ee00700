"""The runs that pages look at: each is read once for all requests, part by part."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple

from msgspec import Struct

from kb_cli.compare.side import Side, read_side
from kb_cli.report.data.run_report import TimeReport, make_report
from kb_cli.report.data.run_source import RunSource, read_without_log, with_log
from kb_cli.run.base.files import LOG, RUN, TOPOLOGY, RunFolderError
from kb_cli.run.base.progress import PROGRESS
from kb_cli.run.records.repeat_command import repeat_command
from kb_cli.run.records.run_json import RunJson, read_run
from kb_cli.trace.traffic import Resource, used_by
from kb_cli.trace.transfers import DmaFlow, flows_of
from kb_cli.web.lazy_parts import LazyParts
from kb_cli.web.run_index import RunPlace
from kb_cli.web.run_timeline import RunTimeline
from kb_cli.web.stall_tables import Stalls
from kb_dataexec import OpLog, read_log
from kb_dataexec.files import file_in
from kb_engine.engine import chip_of
from kb_messages import KbError
from kb_topology import Topology, load_topology


class NoLogError(RunFolderError):
    """Raised for a view that needs the op log of a run without one. `command` runs the run again and keeps the log."""

    def __init__(self, folder: Path, run: RunJson) -> None:
        why = run.keep.log_reason
        got = f"a run whose op log was not kept ({why})" if run.flags.log else "a run without an op log (--no-log)"
        super().__init__(str(folder), got, "one", run.how_to_keep_log)
        self.command = repeat_command(folder, run)


class ReadingStep(Struct, frozen=True, kw_only=True):
    """A part of a run that a view needs. `done` of `total` records are read of the part `log`; 0 for other parts."""

    name: str
    is_done: bool
    done: int
    total: int


class OpenedRun:
    """The run at *place*, as it was when it was opened. *stamp* differs when the run is written again.

    Each part is computed when the first page asks for it.
    """

    def __init__(self, place: RunPlace, stamp: str) -> None:
        self.place, self.stamp = place, stamp
        self._parts = LazyParts()
        self._n_read = 0

    @property
    def files(self) -> RunSource:
        """The run as `kb report` reads it, without its log. Raises KbErrors as `read_run_source` does."""
        return self._parts.part("files", self._read_files)

    def _read_files(self) -> RunSource:
        folder = self._complete_path()
        run = read_run(folder)
        if isinstance(run, RunJson) and not run.flags.log:
            raise NoLogError(folder, run)
        return read_without_log(folder)

    @property
    def source(self) -> RunSource:
        """The run as `kb report` reads it. Raises KbErrors as `read_run_source` does."""
        return self._parts.part("log", lambda: with_log(self.files, lazy_operands=True, look=self._count))

    def _count(self, chunk: OpLog) -> None:
        self._n_read += chunk.n_ops

    @property
    def steps(self) -> list[ReadingStep]:
        """What was asked for of this run, in the order of the first requests, and how far it is."""
        there = self._parts.is_done()
        total = self.files.run.results.ops if there.get("files") and "log" in there else 0
        return [
            ReadingStep(
                name=str(name),
                is_done=is_done,
                done=self._n_read if name == "log" else 0,
                total=total if name == "log" else 0,
            )
            for name, is_done in there.items()
        ]

    def _complete_path(self) -> Path:
        if self.place.state != "complete":
            got = "a run that did not come to its end"
            raise RunFolderError(self.place.name, got, "a complete one", "the timeline shows how far it came")
        return self.place.path

    @property
    def first_report(self) -> TimeReport:
        """The report without its roofline, and without what comes from the op log."""
        return self._parts.part("first report", lambda: make_report(self.files, with_roofline=False))

    @property
    def report(self) -> TimeReport:
        """The report without its roofline."""
        return self._parts.part("report", lambda: make_report(self.source, with_roofline=False))

    @property
    def whole_report(self) -> TimeReport:
        """The report of the run, as `kb report` computes it."""
        return self._parts.part("roofline", lambda: make_report(self.source))

    @property
    def chip(self) -> Topology:
        """The chip of the run."""
        if self.place.state == "complete":
            return self.files.chip
        return self._parts.part("chip", lambda: load_topology(file_in(self.place.path, TOPOLOGY, RunFolderError)))

    @property
    def side(self) -> Side:
        """The run as `kb compare` reads it. Raises RunFolderError for one that did not come to its end."""
        return self._parts.part("side", lambda: read_side(self._complete_path()))

    @property
    def timeline(self) -> RunTimeline:
        """The lanes of the run. Raises KbErrors where it has no log."""
        return self._parts.part("timeline", self._new_timeline)

    @property
    def stalls(self) -> Stalls:
        """The waits of all tiles. Raises KbErrors where the run has no log."""
        return self._parts.part("stalls", lambda: Stalls(self.timeline))

    @property
    def flows(self) -> list[DmaFlow]:
        """The transfers of DMAs. Raises KbErrors where the run has no log."""
        return self._parts.part("flows", lambda: list(flows_of(self.timeline.log)))

    @property
    def uses(self) -> list[dict[Resource, float]]:
        """The links and memories of each of `flows`. Raises KbErrors where a block of the chip is not installed."""
        return self._parts.part("uses", lambda: used_by(self.flows, chip_of(self.chip)))

    def _new_timeline(self) -> RunTimeline:
        if self.place.state != "complete":
            folder = self.place.path / LOG
            if not folder.is_dir():  # set-up, or --keep none
                fix = "look again when it has simulated some time" if self.place.state == "running" else ""
                raise RunFolderError(self.place.name, "a run that has not written a log", "one", fix)
            log = read_log(folder, prefix=True)
            goes_on = self.place.state == "running"
            return RunTimeline(Path(self.place.name), log, [], goes_on, find_chip=lambda: self.chip)
        source = self.source
        if source.too_large is not None:
            raise source.too_large
        if source.log is None:
            raise NoLogError(source.folder, source.run)
        results = source.run.results
        workload = results.workload_ops or ()
        launches, log = results.launches, source.log
        return RunTimeline(source.folder, log, launches, of_workload=workload, find_chip=lambda: self.chip)


_MOST: Final = 3
"""The most runs that are kept. The tables of a run of a million records take some hundred megabytes."""
_FRESH_S: Final = 2.0
"""Seconds for which a run that goes on is not read again."""


class RunWentOnError(KbError):
    """Raised when a request names an earlier state of a run that is no longer kept. The answer has the status 409."""

    status = HTTPStatus.CONFLICT


class _Kept(NamedTuple):
    run: OpenedRun
    written: object
    opened_s: float


class OpenedRuns:
    """Keeps the runs that were requested last. A run that was written again is read again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[str, _Kept] = OrderedDict()

    def run(self, place: RunPlace, stamp: str | None) -> OpenedRun:
        """Returns the run at *place*; with *stamp*, the state with that stamp. Its files are read later, part by part.

        Raises RunWentOnError where the state with the stamp is no longer kept, and the run has been written since.
        """
        with self._lock:
            found = self._runs.get(stamp) if stamp is not None else self._latest(place)
            if found is None or found.run.place.path != place.path:
                written = _written(place)
                run = OpenedRun(place, _stamp(place, written))
                if stamp not in (None, run.stamp):
                    raise RunWentOnError(
                        place.name, "a run that was written again", "the run of now", "reload the page"
                    )
                found = _Kept(run, written, monotonic())
                self._runs[run.stamp] = found
                while len(self._runs) > _MOST:
                    self._runs.popitem(last=False)
            self._runs.move_to_end(found.run.stamp)
            return found.run

    def _latest(self, place: RunPlace) -> _Kept | None:
        """Returns the kept state of the run at *place*, if it is as new as its files, or was read just now."""
        of_place = [each for each in self._runs.values() if each.run.place == place]
        last = max(of_place, key=lambda each: each.opened_s, default=None)
        if last is None or last.written == _written(place):
            return last
        return last if place.state == "running" and monotonic() - last.opened_s < _FRESH_S else None


def _stamp(place: RunPlace, written: object) -> str:
    """Returns the stamp of the run at *place*, whose files were *written* then. It is equal until the files are written
    again.

    So a page may ask for a run that is no longer kept. Each look at the log of a run that goes on has another stamp.
    """
    if place.state == "running":
        return token_hex(4)
    return sha256(repr((str(place.path), place.state, written)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _written(place: RunPlace) -> object:
    """Returns the times and inodes of the files that change with every update of a run."""
    found: list[tuple[int, int] | None] = []
    for name in (RUN, PROGRESS):
        try:
            stat = (place.path / name).stat()
            found.append((stat.st_mtime_ns, stat.st_ino))
        except OSError:
            found.append(None)
    return found
