"""Texts between kb and others: bytes that may be no UTF-8, digits of any number, and JSON for any reader."""

from __future__ import annotations

import re
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from typing import Any, Final

import msgspec

from kb_messages.errors import KbError

_HALF: Final = re.compile("[\ud800-\udfff]")
_BEYOND_ASCII: Final = re.compile("[^\\x00-\\x7f]+")
_LINE: Final = "\u2500"
_MOST_DIGITS: Final = 18
"""Every number of so many digits fits 64 bits."""


def decode_text(data: bytes, where: str, needs: str, error: type[KbError] = KbError) -> str:
    """The text that *data*, the content of *where*, spells in UTF-8. A byte order mark is left out.

    Raises *error* for bytes that are no UTF-8. The error names the offset of the first wrong byte, and its line where
    *data* has several.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        at = reason.start + (len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0)
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise error(where, "text in UTF-16", f"{needs} in UTF-8", "save the file as UTF-8")
    line = data.count(b"\n", 0, at) + 1
    place = f"{where}:{line}" if b"\n" in data.rstrip(b"\n") else where
    got = f"the byte 0x{data[at]:02x} at offset {at}, which is no UTF-8"
    raise error(place, got, f"{needs} in UTF-8", "save the file as UTF-8")


def check_text(text: str, where: str, error: type[KbError] = KbError) -> None:
    """Raises *error* for a *text* of the command line that has a byte which is no text in the encoding of the system.

    Python reads such a byte as half of a surrogate pair. JSON has no form for it, so no file of results holds *text*.
    """
    if half := _HALF.search(text):
        encoding = sys.getfilesystemencoding().upper()
        is_utf8 = encoding == "UTF-8"
        fix = "rename a file that has such a name" if is_utf8 else "use a locale of UTF-8, such as LC_ALL=C.UTF-8"
        got = f"the byte 0x{ord(half[0]) & 0xFF:02x}, which is no {encoding}, in {text[:80]!r}"
        raise error(where, got, f"text in {encoding}", fix)


def int_of(text: str) -> int | None:
    """The number that *text* spells in 1 to 18 ASCII digits; None for every other text.

    `int` takes other digits, blanks and `_` too, and fails for a number of more than 4300 digits.
    """
    return int(text) if len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal() else None


def encode_json(value: object) -> bytes:
    r"""Returns *value*, a Struct or plain JSON values, as JSON that any reader of UTF-8 takes.

    Half of a surrogate pair, which stands for a byte of a file name that is no UTF-8, is written out, as in `\\udcff`.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_halves(msgspec.to_builtins(value)))


def _without_halves(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(item) for key, item in value.items()}
    return [_without_halves(item) for item in value] if isinstance(value, (list, tuple)) else value


def ascii_json(text: str) -> str:
    """The JSON *text* with an escape for every character beyond ASCII, for streams that lack such characters."""
    return _BEYOND_ASCII.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def is_encodable(text: str, encoding: str | None) -> bool:
    """Whether *encoding*, or UTF-8 for None, has all characters of *text*."""
    try:
        return text.isascii() or bool(text.encode(encoding or "utf-8"))
    except UnicodeEncodeError:
        return False


def encodable(text: str, encoding: str | None) -> str:
    r"""Returns *text* with `\xf6` and the like for characters that *encoding*, or UTF-8 for None, lacks.

    The lines of tables become `-`, so that their columns stay below each other.
    """
    if is_encodable(text, encoding):
        return text
    encoding = encoding or "utf-8"
    lined = text if is_encodable(_LINE, encoding) else text.replace(_LINE, "-")
    return lined.encode(encoding, "backslashreplace").decode(encoding)


def write_out(text: str) -> None:
    """Writes *text* to standard output, with escapes for characters that its encoding lacks. Raises OSError."""
    sys.stdout.write(encodable(text, getattr(sys.stdout, "encoding", None)))
