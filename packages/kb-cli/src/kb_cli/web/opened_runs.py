"""OpenedRuns: the runs that pages look at, read once for all requests."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from http import HTTPStatus
from secrets import token_hex
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple

from kb_cli.run.files import RUN
from kb_cli.run.progress import PROGRESS
from kb_cli.web.opened_run import OpenedRun
from kb_cli.web.shelf import RunPlace
from kb_messages import KbError

_MOST: Final = 3
"""Runs that are kept. The tables of a run of a million records take some hundred megabytes."""
_FRESH_S: Final = 2.0
"""Seconds for which a run that goes on is taken as it was read."""


class RunWentOnError(KbError):
    """A request for a run as it was read before, and as it is kept no longer. The answer has the status 409."""

    status = HTTPStatus.CONFLICT


class _Kept(NamedTuple):
    run: OpenedRun
    written: object
    opened_s: float


class OpenedRuns:
    """Keeps the runs that were asked for last. A run that was written again is read again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[str, _Kept] = OrderedDict()

    def run(self, place: RunPlace, stamp: str | None) -> OpenedRun:
        """The run at *place*; with *stamp*, as it was read when it got that stamp. Nothing of it is read here.

        Raises RunWentOnError where what had the stamp is no longer kept, and the run has been written since.
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
        """What is kept of the run at *place*, if it is as new as its files, or was read just now."""
        of_place = [each for each in self._runs.values() if each.run.place == place]
        last = max(of_place, key=lambda each: each.opened_s, default=None)
        if last is None or last.written == _written(place):
            return last
        return last if place.state == "running" and monotonic() - last.opened_s < _FRESH_S else None


def _stamp(place: RunPlace, written: object) -> str:
    """The stamp of the run at *place*, whose files were *written* then: the same one as long as nobody writes them.

    So a page may ask for a run that is no longer kept. Each look at the log of a run that goes on has another stamp.
    """
    if place.state == "running":
        return token_hex(4)
    return sha256(repr((str(place.path), place.state, written)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _written(place: RunPlace) -> object:
    """When the files were written that change with every update of a run."""
    found: list[tuple[int, int] | None] = []
    for name in (RUN, PROGRESS):
        try:
            told = (place.path / name).stat()
            found.append((told.st_mtime_ns, told.st_ino))
        except OSError:
            found.append(None)
    return found
