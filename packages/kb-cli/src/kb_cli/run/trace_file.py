"""The file of `kb run --trace`: each line is a trace event as JSON, in the order of the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from kb_dataexec.files import writing
from kb_messages import BenchmarkError, TraceEvent

Trace = Callable[[TraceEvent], None]
_EVENTS_A_WRITE = 1024


class TraceFile:
    """Writes events to an open file, a thousand at a time."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._events: list[TraceEvent] = []

    def add(self, event: TraceEvent) -> None:
        """Add the next event."""
        self._events.append(event)
        if len(self._events) == _EVENTS_A_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write the events that were added since the last write."""
        with writing(self._path):
            self._file.write(self._encoder.encode_lines(self._events))
            self._file.flush()
        self._events.clear()


@contextmanager
def trace_to(path: Path | None) -> Iterator[Trace | None]:
    """Yield a function that writes a run's events to the file *path*, or None without a path.

    An existing file is overwritten. A run that fails leaves the events so far. Raises BenchmarkError for a file that
    cannot be opened.
    """
    if path is None:
        yield None
        return
    file = _opened(path)
    trace = TraceFile(file, path)
    try:
        yield trace.add
    finally:
        with writing(path), file:
            trace.flush()


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        got = f"a file that cannot be written ({error.strerror})"
        raise BenchmarkError(str(path), got, "a file in a folder that is there", "name one with --trace") from None
