"""OpenedRuns: the runs that pages look at, read once for all requests."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

from kb_cli.run.files import RUN
from kb_cli.run.progress import PROGRESS
from kb_cli.web.opened_run import OpenedRun
from kb_cli.web.shelf import RunPlace

_MOST: Final = 4
"""Runs that are kept. The tables of a run of a million records take some hundred megabytes."""


class OpenedRuns:
    """Keeps the runs that were asked for last. A run that was written again is read again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[tuple[object, ...], OpenedRun] = OrderedDict()

    def run(self, place: RunPlace) -> OpenedRun:
        """The run at *place*. Nothing of it is read here."""
        key = (place.path, place.state, *_written(place))
        with self._lock:
            found = self._runs.get(key)
            if found is None:
                found = self._runs[key] = OpenedRun(place)
                while len(self._runs) > _MOST:
                    self._runs.popitem(last=False)
            self._runs.move_to_end(key)
            return found


def _written(place: RunPlace) -> list[tuple[int, int] | None]:
    """When the files were written that change with every update of a run."""
    found: list[tuple[int, int] | None] = []
    for name in (RUN, PROGRESS):
        try:
            told = (place.path / name).stat()
            found.append((told.st_mtime_ns, told.st_ino))
        except OSError:
            found.append(None)
    return found
