"""The standard streams, which may be closed, or lead to a full disk or to a reader that has gone."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from kb_cli.terminal.escape import bounded

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def drop_output() -> None:
    """Lets standard output lead nowhere, so that the interpreter's end does not fail with buffered text."""
    with suppress(OSError, ValueError, AttributeError):  # no stream, a closed stream, or one without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str, what: str = "error") -> None:
    """Writes `error: `, or *what* in its place, and *text* to standard error.

    A stream that cannot be written is ignored.
    """
    with suppress(OSError, ValueError, AttributeError):
        opening = f"{_RED}{what}:{_PLAIN}" if has_colour(sys.stderr) else f"{what}:"
        sys.stderr.write(f"{opening} {bounded(text)}\n")
        sys.stderr.flush()


def has_colour(stream: TextIO | None) -> bool:
    """Whether text on *stream* may be coloured: it is a terminal, which is not `dumb`, and `NO_COLOR` is not set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether *stream* is a terminal; None stands for a stream that the caller of kb has closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed meanwhile
        return False
