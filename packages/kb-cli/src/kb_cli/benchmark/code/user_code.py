"""Runs code of a benchmark's author. An exception shows the author's own frames and no others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from kb_engine.program import explain, is_authors_error, place
from kb_messages import BenchmarkError, KbError, SimulationStuckError


class ProcessState:
    """The state of the process now: working directory, standard streams, imported modules and recursion limit."""

    def __init__(self) -> None:
        self._recursion_limit = sys.getrecursionlimit()
        self._modules = sys.modules.copy()
        self._streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        self._descriptors = {name: _descriptor(stream) for name, stream in self._streams.items()}
        self._folder = ""
        with suppress(OSError):  # the folder may be deleted
            self._folder = os.getcwd()

    def restore(self) -> None:
        """Restores the state. Raises BenchmarkError for a stream that was closed and cannot be opened again."""
        sys.setrecursionlimit(self._recursion_limit)
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
        if self._folder:
            with suppress(OSError):
                os.chdir(self._folder)
        for name, stream in self._streams.items():
            setattr(sys, name, self._open(name, stream))

    def _open(self, name: str, stream: TextIO | None) -> TextIO | None:
        if stream is None or not stream.closed:
            return stream
        try:
            return open(self._descriptors[name], "w", encoding=stream.encoding, errors=stream.errors, closefd=False)
        except (OSError, ValueError):
            raise BenchmarkError(f"sys.{name}", "a stream that the benchmark closed", "an open one") from None


def _descriptor(stream: TextIO | None) -> int:
    """Returns the file descriptor of *stream*, or -1 for a stream without one."""
    try:
        return -1 if stream is None else stream.fileno()
    except (OSError, ValueError):
        return -1


@contextmanager
def user_code(file: Path, what: str, is_authors: bool = True) -> Iterator[None]:
    """Guards a call into the benchmark *file*; *what* names the call in errors.

    Raises a KbError that shows the author's frames for any exception. A KbError keeps its words, and gets the author's
    line in front where the user is the author. Signals and errors of the disk pass. The state of the process is
    restored in the end.
    """
    state = ProcessState()
    try:
        try:
            yield
        finally:
            state.restore()
    except SimulationStuckError:
        raise
    except KbError as error:
        if is_authors:
            place(error, file.parent)
        raise
    except BaseException as error:
        if not is_authors_error(error, file.parent):
            raise
        raise explain(error, file.parent, f"{what} to succeed", elsewhere=file.name) from None
