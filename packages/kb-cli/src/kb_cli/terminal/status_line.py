"""One line on standard error that is written over again and again, and removed in the end. On terminals only."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from kb_cli.terminal.escape import shown
from kb_cli.terminal.streams import is_terminal

GAP = "  "
"""The text between two parts."""


class StatusLine:
    """Shows texts on the last line of the terminal. Where standard error is no terminal, nothing is written."""

    def __init__(self) -> None:
        self._length = 0
        self.is_shown = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"

    def show(self, parts: Sequence[str], share: float | None = None) -> None:
        """Writes *parts* in place of the current text. On a narrow terminal, the last parts are left out.

        A terminal has no bar for *share*, the part of the work that is done.
        """
        if not self.is_shown:
            return
        text = _fitting([shown(part) for part in parts], _columns() - 1)
        self._write(f"\r{text}{' ' * (self._length - len(text))}")
        self._length = len(text)

    def clear(self) -> None:
        """Removes the line. The cursor stands at its begin."""
        if self._length:
            self._write(f"\r{' ' * min(self._length, _columns() - 1)}\r")
            self._length = 0

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal has gone
            self.is_shown = False


def _fitting(parts: Sequence[str], width: int) -> str:
    count = len(parts)
    while count > 1 and len(GAP.join(parts[:count])) > width:
        count -= 1
    return GAP.join(parts[:count])[:width]


def _columns() -> int:
    columns = 0
    with suppress(OSError, ValueError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    return columns or 80
