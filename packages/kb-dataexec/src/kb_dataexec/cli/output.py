"""Output to the terminal: lines, JSON and progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from kb_messages import KbError


class UsageError(KbError):
    """An argument of the command line cannot be used."""


def emit(lines: Iterable[str]) -> None:
    """Write *lines* to stdout."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def emit_json(value: object) -> None:
    """Write *value* as indented JSON. Infinities and NaN become null, because JSON has neither."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


class Progress:
    """Shows the progress on stderr if that is a terminal. Called with (records or chunks done, their total)."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        """Show the percentage when it has changed."""
        percent = 100 * done // max(total, 1)
        if percent != self._shown and sys.stderr.isatty():
            self._shown = percent
            sys.stderr.write(f"\r{percent} % of {total} records" + ("\n" if done == total else ""))
            sys.stderr.flush()
