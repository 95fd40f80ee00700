"""OpenedRun: what pages show of one run, each part computed when the first page asks for it."""

from __future__ import annotations

from pathlib import Path

from kb_cli.compare.side import Side, read_side
from kb_cli.report.run_report import TimeReport, make_report
from kb_cli.report.run_source import RunSource, read_run_source
from kb_cli.run.files import LOG, TOPOLOGY, RunFolderError
from kb_cli.web.lazy_parts import LazyParts
from kb_cli.web.run_timeline import RunTimeline
from kb_cli.web.shelf import RunPlace
from kb_cli.web.stall_tables import Stalls
from kb_dataexec import read_log
from kb_dataexec.files import file_in
from kb_topology import Topology, load_topology


class OpenedRun:
    """The run at *place*, as it was when it was opened. *stamp* tells it from the same run, written again."""

    def __init__(self, place: RunPlace, stamp: str) -> None:
        self.place, self.stamp = place, stamp
        self._parts = LazyParts()

    @property
    def source(self) -> RunSource:
        """The run as `kb report` reads it. Raises KbErrors as `read_run_source` does."""
        return self._parts.part("source", self._read_source)

    def _read_source(self) -> RunSource:
        return read_run_source(self._complete_path(), lazy_operands=True)  # the first lanes need none

    def _complete_path(self) -> Path:
        if self.place.state != "complete":
            got = "a run that did not come to its end"
            raise RunFolderError(self.place.name, got, "a complete one", "the timeline shows how far it came")
        return self.place.path

    @property
    def report(self) -> TimeReport:
        """What `kb report` computes."""
        return self._parts.part("report", lambda: make_report(self.source))

    @property
    def chip(self) -> Topology:
        """The chip of the run."""
        if self.place.state == "complete":
            return self.source.chip
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

    def _new_timeline(self) -> RunTimeline:
        if self.place.state != "complete":
            folder = self.place.path / LOG
            if not folder.is_dir():  # set-up, or --keep none
                fix = "look again when it has simulated some time" if self.place.state == "running" else ""
                raise RunFolderError(self.place.name, "a run that has not written a log", "one", fix)
            log = read_log(folder, prefix=True)
            return RunTimeline(Path(self.place.name), log, [], self.place.state == "running")
        source = self.source
        if source.too_large is not None:
            raise source.too_large
        if source.log is None:
            got = f"a run whose op log was not kept ({source.run.keep.why})"
            raise RunFolderError(str(source.folder), got, "one", "run it again with --keep all")
        return RunTimeline(source.folder, source.log, source.run.results.launches)
