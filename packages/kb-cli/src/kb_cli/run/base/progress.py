"""What a run is doing now: on the terminal's status line, and in the file progress.json of the run folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import TracebackType

import msgspec
from msgspec import Struct

from kb_cli.terminal.status_line import StatusLine
from kb_cli.terminal.units import duration
from kb_dataexec.files import writing

PROGRESS = "progress.json"
"""The name of the file."""
SET_UP, PASS_1, PASS_2, VERIFY, SAVE = "set-up", "pass 1 (time)", "pass 2 (data)", "verification", "saving"
"""Phases of a run."""
INTERVAL_S = 0.25
"""Seconds between two updates within a phase."""


class Simulated(Struct, frozen=True, kw_only=True):
    """How far pass 1 is: the simulated time, stage services that have ended and that the commands issued so far have,
    and kernels of the launch that have ended."""

    t_ps: int
    stages: int
    planned: int
    pes_done: int
    pes: int


class Snapshot(Struct, frozen=True, kw_only=True):
    """progress.json. `state` is `running`, `interrupted` or `stuck`.

    `row` counts from 1 and is null without a shapes file. `what` says more about the phase. `done` and `total` count
    stages, records or ops. `left_s` is for this phase, and `left_grows` says that the total has grown since the last
    update. `standing` is where the kernels of an interrupted run stood, or who waits for whom in a stuck one.
    `elapsed_s` and `left_s` are seconds on this machine, and `advanced_s` is `elapsed_s` at the last update at which a
    phase began, or time or work went on.
    """

    format: str = "kernbench-progress"
    version: int = 1
    state: str = "running"
    pid: int
    row: int | None
    rows: int | None
    phase: str
    what: str
    elapsed_s: float
    advanced_s: float = 0.0
    done: int | None = None
    total: int | None = None
    left_s: float | None = None
    left_grows: bool = False
    t_ps: int | None = None
    pes_done: int | None = None
    pes: int | None = None
    standing: list[str] = []


class RunProgress:
    """Tells how far a run is, on a terminal and in *folder* if that is given.

    Each phase is told when it begins, and then at most once in `INTERVAL_S`. There is no thread: the clock's
    housekeeping, the executor and the steps of a run call this object. Leaving the `with` block removes the line.
    """

    def __init__(self, folder: Path | None = None, seconds: Callable[[], float] = monotonic) -> None:
        self._line = StatusLine()
        self._file = folder / PROGRESS if folder is not None else None
        self._seconds = seconds
        self._began_s = self._phase_s = self._told_s = seconds()
        self._first_done: int | None = None
        self._last_total = 0
        self._row: tuple[int, int] | None = None
        self._now = Snapshot(pid=os.getpid(), row=None, rows=None, phase="", what="", elapsed_s=0.0)

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.clear()

    def row(self, number: int, rows: int) -> None:
        """Row *number* of *rows* begins, counted from 1."""
        self._row = number, rows

    def begin(self, phase: str, what: str = "") -> None:
        """A phase begins, or another part of it, which *what* names."""
        self._phase_s = self._seconds()
        self._first_done, self._last_total = None, 0
        row, rows = self._row or (None, None)
        self._tell(Snapshot(pid=os.getpid(), row=row, rows=rows, phase=phase, what=what, elapsed_s=self._elapsed_s()))

    def mention(self, phase: str, what: str) -> None:
        """As `begin`, for one of many short steps: it is told when the phase is new or an update is due."""
        if phase != self.phase or self.is_due:
            self.begin(phase, what)

    def pause(self) -> None:
        """Remove the line until the next update."""
        self._line.clear()

    @property
    def phase(self) -> str:
        """The phase that the run is in."""
        return self._now.phase

    @property
    def is_due(self) -> bool:
        """Whether the last update is old enough for another one."""
        return self._seconds() - self._told_s >= INTERVAL_S

    def count(self, done: int, total: int) -> None:
        """*done* of *total* records or ops of this phase are done."""
        if self.is_due:
            self._tell(self._counted(done, total))

    def simulated(self, far: Simulated) -> None:
        """Pass 1 is *far*."""
        counted = self._counted(far.stages, far.planned)
        self._tell(msgspec.structs.replace(counted, t_ps=far.t_ps, pes_done=far.pes_done, pes=far.pes))

    def stuck(self, standing: list[str]) -> None:
        """The simulation is stuck, and its kernels are *standing* so."""
        self._end("stuck", standing)

    def _end(self, state: str, standing: list[str]) -> None:
        self._line.clear()
        self._now = msgspec.structs.replace(self._now, state=state, standing=standing, left_s=None)
        self._write(self._now)

    def interrupted(self, standing: list[str]) -> str:
        """The run was interrupted, and its kernels were *standing* so. Returns a sentence on where the run was."""
        self._end("interrupted", standing)
        return "in " + ", ".join(line_parts(self._now))

    def remove_file(self, folder: Path) -> None:
        """Remove progress.json if it is in *folder*: the run is complete, and its run.json says all."""
        if self._file is not None and self._file.parent == folder:
            self._file.unlink(missing_ok=True)
            self._file = None

    def _counted(self, done: int, total: int) -> Snapshot:
        now_s = self._seconds()
        if self._first_done is None:
            self._first_done, self._phase_s = done, now_s
        rate = (done - self._first_done) / (now_s - self._phase_s) if now_s > self._phase_s else 0.0
        grows, self._last_total = 0 < self._last_total < total, total
        return msgspec.structs.replace(
            self._now,
            elapsed_s=self._elapsed_s(),
            done=done,
            total=total,
            left_s=round((total - done) / rate, 3) if rate > 0 else None,
            left_grows=grows,
        )

    def _elapsed_s(self) -> float:
        return round(self._seconds() - self._began_s, 3)

    def _tell(self, snapshot: Snapshot) -> None:
        self._told_s = self._seconds()
        goes_on = _moved(snapshot) != _moved(self._now)
        advanced_s = self._elapsed_s() if goes_on else self._now.advanced_s
        snapshot = self._now = msgspec.structs.replace(snapshot, advanced_s=advanced_s)
        self._line.show(line_parts(snapshot))
        self._write(snapshot)

    def _write(self, snapshot: Snapshot) -> None:
        """Replace the file in one step, so that a reader finds all of it."""
        if self._file is None:
            return
        partial = self._file.with_name(f"{PROGRESS}.partial")
        with writing(self._file):
            partial.write_bytes(msgspec.json.encode(snapshot) + b"\n")
            os.replace(partial, self._file)


def _moved(now: Snapshot) -> tuple[object, ...]:
    """What changes when a run goes on."""
    return now.row, now.phase, now.what, now.done, now.t_ps


def line_parts(now: Snapshot) -> list[str]:
    """The parts of the status line for *now*, the most telling ones first."""
    parts = [f"{now.phase}: {now.what}" if now.what else now.phase]
    if now.row is not None:
        parts[0] = f"row {now.row} of {now.rows}, {parts[0]}"
    if now.t_ps is not None:
        parts.append(duration(now.t_ps))
    if now.done is not None and now.total is not None:
        unit = "stages" if now.t_ps is not None else "ops"
        parts.append(f"{now.done:,} of {now.total:,} {unit}")
    if now.pes:
        parts.append(f"{now.pes_done} of {now.pes} PEs done")
    if now.left_s is not None and (now.left_s >= 1 or not now.left_grows):
        parts.append(f"{now.left_s:,.0f} s left{' or more' if now.left_grows else ''}")
    return parts
