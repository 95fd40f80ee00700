"""The standard streams, which may be closed, or lead to a full disk or to a reader that has gone."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from kb_cli.terminal.escape import bounded


def drop_output() -> None:
    """Let standard output lead nowhere, so that the interpreter's end does not fail with what is buffered."""
    with suppress(OSError, ValueError, AttributeError):  # no stream, a closed stream, or one without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Write `error: ` and *text* to standard error. Nobody is told when that stream cannot be written."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"error: {bounded(text)}\n")
        sys.stderr.flush()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether *stream* is a terminal; None stands for a stream that the caller of kb has closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed meanwhile
        return False
