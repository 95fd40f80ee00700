"""OpenedRun: what pages show of one run, each part computed when the first page asks for it."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast

from kb_cli.report.run_report import TimeReport, make_report
from kb_cli.report.run_source import RunSource, read_run_source
from kb_cli.web.shelf import RunPlace
from kb_messages import KbError

_Part = TypeVar("_Part")


class OpenedRun:
    """The run at *place*. Several requests at once wait for one computation."""

    def __init__(self, place: RunPlace) -> None:
        self.place = place
        self._lock = RLock()
        self._parts: dict[str, Any] = {}

    def part(self, name: str, make: Callable[[], _Part]) -> _Part:
        """What *make* gave for the part *name*, now or before. A KbError is raised again for each request."""
        with self._lock:
            if name not in self._parts:
                try:
                    self._parts[name] = make()
                except KbError as error:
                    self._parts[name] = error
            found = self._parts[name]
        if isinstance(found, KbError):
            raise found
        return cast(_Part, found)

    @property
    def source(self) -> RunSource:
        """The run as `kb report` reads it. Raises KbErrors as `read_run_source` does."""
        return self.part("source", lambda: read_run_source(self.place.path))

    @property
    def report(self) -> TimeReport:
        """What `kb report` computes."""
        return self.part("report", lambda: make_report(self.source))
