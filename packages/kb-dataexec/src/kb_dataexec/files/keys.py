"""Finds keys that stand twice in a JSON object, at the speed at which lines of JSON are decoded."""

from __future__ import annotations

from typing import Any, Final

from kb_dataexec.files.json_text import decode_json
from kb_messages import KbError

_VARIABLE: Final = b"0123456789abcdefABCDEF .+-"
"""What differs between lines that one script writes: numbers, bytes in hexadecimal digits, blanks."""
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
        """Whether the form of *text*, a whole JSON object, says that no key stands twice."""
        return text.translate(None, _VARIABLE) in self._known

    def check(self, text: bytes, where: str, error: type[KbError]) -> None:
        """Raise *error*, which names *where*, if an object in *text* has a key twice. Remember the form of *text*."""
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
