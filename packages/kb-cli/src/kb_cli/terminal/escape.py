"""Escapes text of users' files for a terminal: control characters are written out, so no name colours or erases a
line.
"""

from __future__ import annotations

import re

LINE, LINES = 8000, 400
"""The most characters of a line of an error, and the most lines of an error."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, characters that turn the direction of text, and halves of pairs."""


def shown(text: str) -> str:
    r"""Returns *text* with `\x1b` and the like for control characters. Tabs and line feeds stay."""
    return _CONTROL.sub(_python_escape, text)


def shown_json(text: str) -> str:
    r"""Returns the JSON *text* with `\u009b` and the like for the control characters that JSON allows in strings."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def bounded(text: str) -> str:
    """Returns *text* escaped as by `shown`, without the middle of lines and texts that are too long for a terminal."""
    lines = [_cut(line) for line in shown(text).split("\n")]
    if len(lines) > LINES:
        lines[LINES // 2 : -LINES // 2] = [f"... ({len(lines) - LINES} more lines) ..."]
    return "\n".join(lines)


def file_stem(name: str, default: str) -> str:
    """Returns *name* as a part of a file's name: letters, digits, `.`, `-` and `_`, at most 80; *default* when none
    is left.
    """
    return re.sub(r"[^\w.-]+", "_", name)[:80].strip(".") or default


def _cut(line: str) -> str:
    half = LINE // 2
    return line if len(line) <= LINE else f"{line[:half]}... ({len(line) - LINE} characters) ...{line[-half:]}"


def _python_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
