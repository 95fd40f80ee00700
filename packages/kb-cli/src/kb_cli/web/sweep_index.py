"""SweepIndex: the sweeps below a folder, each with a name of its own in addresses of the page."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from msgspec import Struct

from kb_cli.sweep.sweep import SweepResult
from kb_cli.sweep.sweep_file import SWEEP, read_sweep
from kb_cli.web.run_index import address_id, folders_below
from kb_messages import KbError

_MOST_NBYTES: Final = 64 << 20
"""The most bytes of the files of all sweeps that are kept whole; the last sweep is kept at any size.

Source: assumed; a thousand points have 0.7 MB.
"""


class NoSweepError(KbError):
    """Raised for a sweep that is not there, or no longer. The answer has the status 404."""

    status = HTTPStatus.NOT_FOUND


class IndexedSweep(Struct, frozen=True, kw_only=True):
    """A sweep of the list. `id` names it in addresses of the page. `written_s` is in seconds since 1970.

    `wrong` says why the sweep cannot be read, and is None where it can; then `points` of it are known, and `failed` of
    these have no result.
    """

    id: str
    name: str
    written_s: float
    benchmark: str = ""
    topology: str = ""
    axes: list[str] = []
    points: int = 0
    failed: int = 0
    wrong: str | None = None


class _Known(NamedTuple):
    stamp: tuple[int, int, int]
    listed: IndexedSweep


class SweepIndex:
    """The sweeps directly below *folder*. Requests name sweeps by ids that this object gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.title = str(folder)
        self._lock = Lock()
        self._known: dict[Path, _Known] = {}
        self._whole: dict[Path, tuple[tuple[int, int, int], SweepResult]] = {}

    def sweeps(self) -> list[IndexedSweep]:
        """Returns all sweeps, the newest first."""
        with self._lock:
            known = {}
            for folder in folders_below(self.folder):
                stamp = _stamp(folder)
                if stamp is not None:
                    before = self._known.get(folder)
                    if before is None or before.stamp != stamp:
                        before = _Known(stamp, self._look(folder, stamp[0] / 1e9))
                    known[folder] = before
            self._known = known
            return sorted((each.listed for each in known.values()), key=lambda each: (-each.written_s, each.name))

    def sweep(self, sweep: str) -> SweepResult:
        """Returns the whole sweep with the id *sweep*.

        Raises NoSweepError when there is none, and BenchmarkError for one that cannot be read.
        """
        for folder in folders_below(self.folder):
            if address_id(folder.name) == sweep:
                with self._lock:
                    return self._read(folder)
        raise NoSweepError(f"sweep={sweep[:40]}", "a sweep that is not there", f"one of the sweeps in {self.title}")

    def _look(self, folder: Path, written_s: float) -> IndexedSweep:
        name = folder.name
        try:
            found = self._read(folder)
        except KbError as error:
            return IndexedSweep(id=address_id(name), name=name, written_s=written_s, wrong=str(error))
        return IndexedSweep(
            id=address_id(name),
            name=name,
            written_s=written_s,
            benchmark=found.benchmark,
            topology=found.chips,
            axes=list(found.axes),
            points=len(found.points),
            failed=found.failed,
        )

    def _read(self, folder: Path) -> SweepResult:
        """Returns the sweep in *folder*, as it is now. The caller holds the lock."""
        stamp = _stamp(folder)
        before = self._whole.pop(folder, None)
        if stamp is not None and before is not None and before[0] == stamp:
            self._whole[folder] = before
            return before[1]
        found = read_sweep(folder)
        if stamp is not None:
            self._whole[folder] = (stamp, found)
        while len(self._whole) > 1 and sum(nbytes for (_, nbytes, _), _ in self._whole.values()) > _MOST_NBYTES:
            self._whole.pop(next(iter(self._whole)))
        return found


def _stamp(folder: Path) -> tuple[int, int, int] | None:
    """Returns a value that changes when the sweep is written again; None where there is none."""
    try:
        stat = (folder / SWEEP).lstat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
