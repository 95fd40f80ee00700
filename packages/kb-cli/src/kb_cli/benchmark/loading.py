"""Whether a benchmark's file is being imported, so that the import starts no run of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kb_messages import BenchmarkError

_FILE: ContextVar[str] = ContextVar("file", default="")


@contextmanager
def loading(file: str) -> Iterator[None]:
    """The import of *file*, which ends with the block."""
    token = _FILE.set(file)
    try:
        yield
    finally:
        _FILE.reset(token)


def refuse_while_loading(what: str) -> None:
    """Raise BenchmarkError when a benchmark's file calls *what* while kb imports the file."""
    if file := _FILE.get():
        fix = 'put the call below `if __name__ == "__main__":`'
        raise BenchmarkError(file, f"a call of {what} while kb imports the file", "none", fix)
