"""The file of `kb run --trace`: a trace event a line, as JSON, in the trace's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from kb_messages import BenchmarkError, TraceEvent

Trace = Callable[[TraceEvent], None]
_EVENTS_A_WRITE = 1024


class TraceFile:
    """Writes events to an open file, some at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._events: list[TraceEvent] = []

    def add(self, event: TraceEvent) -> None:
        """Take the next event."""
        self._events.append(event)
        if len(self._events) == _EVENTS_A_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what was taken."""
        self._file.write(self._encoder.encode_lines(self._events))
        self._events.clear()


@contextmanager
def trace_to(path: Path | None) -> Iterator[Trace | None]:
    """Where a run's events go: the file *path*, overwritten, or nowhere. A run that fails leaves what it got to.

    Raises BenchmarkError for a file that cannot be opened.
    """
    if path is None:
        yield None
        return
    with _opened(path) as file:
        trace = TraceFile(file)
        try:
            yield trace.add
        finally:
            trace.flush()


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        got = f"a file that cannot be written ({error.strerror})"
        raise BenchmarkError(str(path), got, "a file in a folder that is there", "name one with --trace") from None
