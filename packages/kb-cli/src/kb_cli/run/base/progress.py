"""Progress of a run: on the status line of a terminal or notebook cell, and in progress.json of the run folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import TracebackType

import msgspec
from msgspec import Struct

from kb_cli.terminal.cell_line import new_status_line
from kb_cli.terminal.units import duration
from kb_dataexec.files import writing

PROGRESS = "progress.json"
"""The name of the progress file."""
SET_UP, PASS_1, PASS_2, VERIFY, SAVE = "set-up", "pass 1 (time)", "pass 2 (data)", "verification", "saving"
"""The phases of a run, as the user reads them."""
INTERVAL_S = 0.25
"""The shortest time between two updates within a phase, in seconds."""


class Simulated(Struct, frozen=True, kw_only=True):
    """Progress of pass 1: the simulated time in picoseconds, the stage services that have ended, the stage services
    of all commands issued so far, and the kernels of the launch that have ended, of all its PEs.
    """

    t_ps: int
    stages: int
    planned: int
    pes_done: int
    pes: int


class Snapshot(Struct, frozen=True, kw_only=True):
    """The content of progress.json. `state` is `running`, `interrupted` or `stuck`.

    `row` counts rows of a shapes file from 1, and is null for other runs. `what` names the step within the phase.
    `done` and `total` count stages, records or ops. `left_s` is an estimate for this phase, and `left_grows` says that
    the total has grown since the last update. `kernel_positions` lists where the kernels of an interrupted run stood,
    or which kernel of a stuck run waits for which. `elapsed_s` and `left_s` are seconds on this machine. `advanced_s`
    is `elapsed_s` at the last update at which a phase began, or time or work went on.
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
    kernel_positions: list[str] = []


class RunProgress:
    """Reports the progress of a run on the status line, and in *folder* if one is given.

    Each phase is reported when it begins, and then at most once in `INTERVAL_S`. There is no thread: the clock's
    housekeeping, the executor and the steps of a run call this object. Leaving the `with` block removes the status
    line.
    """

    def __init__(self, folder: Path | None = None, seconds: Callable[[], float] = monotonic) -> None:
        self._line = new_status_line()
        self._file = folder / PROGRESS if folder is not None else None
        self._seconds = seconds
        self._began_s = self._phase_s = self._shown_s = seconds()
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
        """Notes that row *number* of *rows*, counted from 1, begins."""
        self._row = number, rows

    def begin(self, phase: str, what: str = "") -> None:
        """Reports that a phase begins, or the step of it that *what* names."""
        self._phase_s = self._seconds()
        self._first_done, self._last_total = None, 0
        row, rows = self._row or (None, None)
        self._tell(Snapshot(pid=os.getpid(), row=row, rows=rows, phase=phase, what=what, elapsed_s=self._elapsed_s()))

    def mention(self, phase: str, what: str) -> None:
        """Reports one of many short steps, but only when its phase is new or an update is due."""
        if phase != self.phase or self.is_due:
            self.begin(phase, what)

    def pause(self) -> None:
        """Removes the status line until the next update."""
        self._line.clear()

    @property
    def phase(self) -> str:
        """The phase that the run is in."""
        return self._now.phase

    @property
    def is_due(self) -> bool:
        """Whether the last update is at least `INTERVAL_S` old."""
        return self._seconds() - self._shown_s >= INTERVAL_S

    def count(self, done: int, total: int) -> None:
        """Reports that *done* of *total* records or ops of this phase are done, if an update is due."""
        if self.is_due:
            self._tell(self._counted(done, total))

    def simulated(self, far: Simulated) -> None:
        """Reports the progress of pass 1."""
        counted = self._counted(far.stages, far.planned)
        self._tell(msgspec.structs.replace(counted, t_ps=far.t_ps, pes_done=far.pes_done, pes=far.pes))

    def stuck(self, kernel_positions: list[str]) -> None:
        """Records in progress.json that the simulation is stuck, and where its kernels stand."""
        self._end("stuck", kernel_positions)

    def _end(self, state: str, kernel_positions: list[str]) -> None:
        self._line.clear()
        self._now = msgspec.structs.replace(self._now, state=state, kernel_positions=kernel_positions, left_s=None)
        self._write(self._now)

    def interrupted(self, kernel_positions: list[str]) -> str:
        """Records in progress.json that the run was interrupted. Returns a sentence that says where the run was."""
        self._end("interrupted", kernel_positions)
        return "in " + ", ".join(line_parts(self._now))

    def remove_file(self, folder: Path) -> None:
        """Removes progress.json from *folder*: a complete run has a run.json instead."""
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
        self._shown_s = self._seconds()
        goes_on = _moved(snapshot) != _moved(self._now)
        advanced_s = self._elapsed_s() if goes_on else self._now.advanced_s
        snapshot = self._now = msgspec.structs.replace(snapshot, advanced_s=advanced_s)
        share = snapshot.done / snapshot.total if snapshot.done is not None and snapshot.total else None
        self._line.show(line_parts(snapshot), share)
        self._write(snapshot)

    def _write(self, snapshot: Snapshot) -> None:
        """Replaces the file in one step, so that a reader never finds half of it."""
        if self._file is None:
            return
        partial = self._file.with_name(f"{PROGRESS}.partial")
        with writing(self._file):
            partial.write_bytes(msgspec.json.encode(snapshot) + b"\n")
            os.replace(partial, self._file)


def _moved(now: Snapshot) -> tuple[object, ...]:
    """Returns the fields of a snapshot that differ as long as the run goes on."""
    return now.row, now.phase, now.what, now.done, now.t_ps


def line_parts(now: Snapshot) -> list[str]:
    """Returns the parts of the status line for *now*, the most important part first."""
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
