"""Decodes JSON that somebody else may have written: strictly, and as a declared type."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from kb_messages import MOST_NBYTES, KbError, decode_text, open_regular, read_bytes

T = TypeVar("T")


def read_json(path: Path, kind: type[T], error: type[KbError] = KbError, most_nbytes: int = MOST_NBYTES) -> T:
    """Reads a value of type *kind* from the file *path* of JSON.

    Raises *error* if *path* is no regular file of at most *most_nbytes*, or holds no such value (see `decode_json`).
    """
    return decode_json(read_bytes(path, error, most_nbytes), kind, str(path), error)


def read_json_lines(path: Path, kind: type[T], error: type[KbError] = KbError) -> Iterator[tuple[int, T]]:
    """Yields (line number, value of type *kind*) for every line of the file *path* that is not blank.

    Raises *error*, which names the line, if *path* is no regular file or a line holds no such value.
    """
    with open_regular(path, error) as file:
        number = 0
        while line := file.readline(MOST_NBYTES):
            number += 1
            if not line.isspace():
                yield number, decode_json(line, kind, f"{path}:{number}", error)


def decode_json(text: bytes, kind: type[T], where: str, error: type[KbError] = KbError) -> T:
    """Returns the value of type *kind* in *text*.

    Raises *error*, naming *where*, for bytes that are no UTF-8 or no JSON, a key that stands twice in one object, NaN
    and infinity, a nesting or a number beyond what Python decodes, and a value of another type than *kind*.
    """
    try:
        return msgspec.convert(_DECODER.decode(text.decode("utf-8")), kind)
    except UnicodeDecodeError:
        decode_text(text, where, "JSON", error)
        raise
    except msgspec.ValidationError as reason:
        raise error(where, f"JSON of another form ({reason})", "JSON that kb wrote") from None
    except RecursionError:
        raise error(where, "JSON that is nested too deeply", "JSON that kb wrote") from None
    except (ValueError, OverflowError) as reason:
        raise error(where, f"no JSON ({_short(str(reason))})", "JSON in UTF-8") from None


class UnreadableJsonError(ValueError):
    """Raised for a text that a decoder of `json_decoder` cannot decode. The text of the error is the reason."""


def json_decoder(kind: type[T]) -> Callable[[bytes | str | msgspec.Raw], T]:
    """Returns a function that decodes JSON as *kind*, about ten times as fast as `decode_json`.

    The function takes the last value of a key that stands twice. It raises UnreadableJsonError for bytes that are no
    UTF-8, a half of a surrogate pair, a text that is no JSON, a nesting beyond what msgspec decodes, and a value of
    another type than *kind*.
    """
    decode = msgspec.json.Decoder(kind).decode

    def decoded(text: bytes | str | msgspec.Raw) -> T:
        try:
            return decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as reason:
            raise UnreadableJsonError(_short(str(reason))) from None

    return decoded


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:80]!r} stands twice in one object")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large for a 64-bit float")
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


_VARIABLE: Final = b"0123456789abcdefABCDEF .+-"
"""The bytes that vary between lines of one script: numbers, hexadecimal digits, blanks."""
_MOST_FORMS: Final = 1 << 12
_LONGEST_FORM: Final = 1 << 16


class DistinctKeys:
    """Refuses objects of JSON that have a key twice. Decoders take the last value of such a key.

    The form of a text is the text without the bytes that vary from line to line. Two equal keys have equal forms, so a
    text has no key twice when it has the form of an earlier text whose keys had distinct forms. Only a text of a new
    form is decoded again. A text with an escape has no form.
    """

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def knows(self, text: bytes) -> bool:
        """Whether the form of *text*, a whole JSON object, proves that no key stands twice."""
        return text.translate(None, _VARIABLE) in self._known

    def check(self, text: bytes, where: str, error: type[KbError]) -> None:
        """Raises *error*, which names *where*, if an object in *text* has a key twice. Keeps the form of *text*."""
        form = text.translate(None, _VARIABLE)
        value = decode_json(text, dict, where, error)
        if b"\\" in text or len(form) > _LONGEST_FORM or not _are_forms_distinct(value):
            return
        if len(self._known) >= _MOST_FORMS:
            self._known.clear()
        self._known.add(form)


def _are_forms_distinct(value: Any) -> bool:
    """Whether the forms of the keys are distinct in every object within *value*."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            if len({key.encode().translate(None, _VARIABLE) for key in inner}) < len(inner):
                return False
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
    return True
