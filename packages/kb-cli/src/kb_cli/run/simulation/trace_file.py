"""The file of `kb run --trace`: each line is a trace event as JSON, in the order of the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from kb_dataexec.files import writing
from kb_messages import BenchmarkError, TraceEvent

Trace = Callable[[TraceEvent], None]
_OF_PERFETTO: Final = (".pftrace", ".pftrace.gz")
"""Endings of the files of `kb trace`."""
_EVENTS_A_WRITE = 1024


class TraceFile:
    """Writes events to an open file, a thousand at a time."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._events: list[TraceEvent] = []

    def add(self, event: TraceEvent) -> None:
        """Adds the next event."""
        self._events.append(event)
        if len(self._events) == _EVENTS_A_WRITE:
            self.flush()

    def flush(self) -> None:
        """Writes the events that were added since the last write."""
        with writing(self._path):
            self._file.write(self._encoder.encode_lines(self._events))
            self._file.flush()
        self._events.clear()


def check_trace_name(path: Path) -> None:
    """Raises BenchmarkError for a *path* whose name promises another format than lines of JSON."""
    if path.name.endswith(_OF_PERFETTO):
        fix = f"kb trace RUN -o {path.name} writes one of a finished run, or write --trace trace.jsonl"
        raise BenchmarkError("--trace", f"{path.name}, the name of a trace for Perfetto", "another name", fix)


@contextmanager
def trace_to(path: Path | None) -> Iterator[Trace | None]:
    """Yields a function that writes a run's events to the file *path*, or None without a path.

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
