"""The status line of a run in a notebook: a bar and a text in the output of the cell, and nothing in the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from html import escape
from time import monotonic
from typing import Any, Final

from kb_cli.terminal.escape import shown
from kb_cli.terminal.status_line import GAP, StatusLine

_FIRST_S: Final = 1.0
"""Seconds of work before a cell shows its progress, so that short runs leave no output. Source: assumed."""
_BAR: Final = "width: 16em; margin-right: 0.8em; vertical-align: middle"


def new_status_line() -> StatusLine:
    """Returns a status line of the notebook cell that runs, or of the terminal where no notebook asks."""
    publisher = _publisher()
    return StatusLine() if publisher is None else CellLine(publisher)


def _publisher() -> Any:
    """Returns the object by which a notebook's kernel displays things; None in other programs.

    IPython on a terminal has a terminal's status line, and a worker process has no cell.
    """
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from multiprocessing import parent_process  # 10 ms that only notebooks pay

    return shell.display_pub if parent_process() is None else None


class CellLine(StatusLine):
    """Shows texts in one display of a cell, which each text replaces. *publisher* is the `display_pub` of IPython."""

    def __init__(self, publisher: Any) -> None:
        super().__init__()
        self.is_shown = True
        self._publisher = publisher
        self._began_s = monotonic()
        self._id = (
            f"kb-progress-{os.urandom(8).hex()}"  # a page may still show the cells of a kernel that was restarted
        )
        self._is_there = self._has_text = False

    def show(self, parts: Sequence[str], share: float | None = None) -> None:
        """Shows *parts* behind a bar that is filled by *share* (0 to 1), and moves where no share is known."""
        if not self._is_there and monotonic() - self._began_s < _FIRST_S:
            return
        text = GAP.join(shown(part) for part in parts)
        value = "" if share is None else f' value="{min(max(share, 0.0), 1.0):.3f}"'
        self._publish(f'<div><progress max="1"{value} style="{_BAR}"></progress>{escape(text)}</div>', text)

    def clear(self) -> None:
        """Removes bar and text."""
        if self._has_text:
            self._publish("", "")

    def _publish(self, html: str, text: str) -> None:
        data, transient = {"text/html": html, "text/plain": text}, {"display_id": self._id}
        self._publisher.publish(data=data, metadata={}, transient=transient, update=self._is_there)
        self._is_there, self._has_text = True, bool(text)
