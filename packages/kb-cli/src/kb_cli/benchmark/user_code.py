"""Runs code of a benchmark's author. An exception shows the author's own frames and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kb_engine.program import explain
from kb_messages import KbError


@contextmanager
def user_code(file: Path, what: str) -> Iterator[None]:
    """Guard a call into the benchmark *file*; *what* names the call in errors.

    Raises a KbError that shows the author's frames for any exception. A KbError passes unchanged.
    """
    try:
        yield
    except KbError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the author must see any exception
        raise explain(error, file.parent, f"{what} to succeed") from None
