"""The value of an unquoted YAML scalar: null, a bool, an integer, a float, or else a string."""

from __future__ import annotations

import math
import re

from kb_topology.text.sentences import cut

_INT = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAX_INT = 2**63 - 1
_MAX_DIGITS = 32


class NumberError(ValueError):
    """A number that is too large or not finite. *got* and *needs* are parts of the error sentence."""

    def __init__(self, got: str, needs: str) -> None:
        super().__init__(got, needs)
        self.got = got
        self.needs = needs


def resolve(text: str) -> bool | int | float | str | None:
    """The value of the unquoted *text*. Raises NumberError for a number outside 64 bits, infinite or not a number."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return _float(text)
    return text


def _integer(text: str) -> int:
    base = {"0x": 16, "0o": 8}.get(text[:2], 10)
    value = int(text, base) if len(text) <= _MAX_DIGITS else _MAX_INT + 1
    if abs(value) > _MAX_INT:
        raise NumberError(f"the integer {cut(text)}", "one that fits 64 bits")
    return value


def _float(text: str) -> float:
    value = math.inf if _NOT_FINITE.fullmatch(text) else float(text)
    if not math.isfinite(value):
        raise NumberError(f"the number {cut(text)}", "a finite one")
    return value
