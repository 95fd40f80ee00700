"""How far a sweep is, on the terminal's status line: points done, failed, and seconds left."""

from __future__ import annotations

from time import monotonic
from types import TracebackType

from kb_cli.run.progress import INTERVAL_S
from kb_cli.terminal.status_line import StatusLine


class SweepProgress:
    """Counts points: *total* in all, of which *known* need no simulation. Leaving the `with` block removes the line."""

    def __init__(self, total: int, known: int) -> None:
        self._line = StatusLine()
        self._total, self._known = total, known
        self._done = self._failed = 0
        self._began_s = self._told_s = monotonic()

    def __enter__(self) -> SweepProgress:
        self._tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.clear()
        if error is not None and isinstance(error, KeyboardInterrupt):
            error.add_note(f"{self._known + self._done} of {self._total} points are stored; the same command goes on")

    def add(self, failed: bool) -> None:
        """One more point is done."""
        self._done += 1
        self._failed += failed
        if monotonic() - self._told_s >= INTERVAL_S or self._done + self._known == self._total:
            self._tell()

    def _tell(self) -> None:
        self._told_s = monotonic()
        parts = [f"sweep: {self._known + self._done:,} of {self._total:,} points"]
        if self._known:
            parts.append(f"{self._known:,} known before")
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._done:
            left = self._total - self._known - self._done
            parts.append(f"{left * (self._told_s - self._began_s) / self._done:,.0f} s left")
        self._line.show(parts)
