"""Output to the terminal: lines, JSON and progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from kb_messages import KbError, ascii_json, encodable, encode_json, is_encodable

_LONGEST_ERROR: Final = 2000


class UsageError(KbError):
    """An argument of the command line cannot be used."""


def plain(text: str) -> str:
    """Returns *text* with control characters and lone surrogates escaped, so that a name cannot steer the terminal."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def counted(number: int, noun: str) -> str:
    """Returns *number* and *noun*, with an s unless *number* is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def emit(lines: Iterable[str]) -> None:
    """Writes *lines* to stdout."""
    sys.stdout.writelines(f"{encodable(plain(line), sys.stdout.encoding)}\n" for line in lines)


def refuse(text: str) -> None:
    """Writes the error *text* to stderr as one line of bounded length."""
    sys.stderr.write(f"error: {plain(text)[:_LONGEST_ERROR]}\n")


def emit_json(value: object) -> None:
    """Writes *value* as indented JSON. Infinities and NaN become null, because JSON has neither."""
    text = msgspec.json.format(encode_json(value), indent=2).decode()
    sys.stdout.write(f"{text if is_encodable(text, sys.stdout.encoding) else ascii_json(text)}\n")


class Progress:
    """Shows the progress on stderr if that is a terminal. Called with (records or chunks done, their total)."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        """Shows the percentage when it has changed."""
        done = min(done, total)  # a chunk of compressed rows comes in parts
        percent = 100 * done // max(total, 1)
        if percent != self._shown and sys.stderr.isatty():
            self._shown = percent
            sys.stderr.write(f"\r{percent} % of {total} records" + ("\n" if done == total else ""))
            sys.stderr.flush()
