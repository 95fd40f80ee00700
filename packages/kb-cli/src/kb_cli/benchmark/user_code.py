"""Running code of a benchmark's author, and telling the author what it raised by the author's own frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kb_engine.program import explain
from kb_messages import KbError


@contextmanager
def user_code(file: Path, what: str) -> Iterator[None]:
    """Run *what* of the benchmark *file*; an exception it raises becomes one that shows its own frames.

    A KbError passes as it is.
    """
    try:
        yield
    except KbError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a benchmark raises is its author's to see
        raise explain(error, file.parent, f"{what} to succeed") from None
