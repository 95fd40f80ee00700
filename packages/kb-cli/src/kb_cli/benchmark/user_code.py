"""Runs code of a benchmark's author. An exception shows the author's own frames and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kb_cli.benchmark.process_state import ProcessState
from kb_engine.program import explain, is_authors_error, place
from kb_messages import KbError, SimulationStuckError


@contextmanager
def user_code(file: Path, what: str) -> Iterator[None]:
    """Guard a call into the benchmark *file*; *what* names the call in errors.

    Raises a KbError that shows the author's frames for any exception. A KbError keeps its words, and gets the author's
    line in front. Signals and errors of the disk pass. The state of the process is as before in the end.
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
        place(error, file.parent)
        raise
    except BaseException as error:
        if not is_authors_error(error, file.parent):
            raise
        raise explain(error, file.parent, f"{what} to succeed", elsewhere=file.name) from None
