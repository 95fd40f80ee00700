"""A sweep for `--json`: values of axes and parameters as numbers, truth values and null, where their texts are such."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kb_cli.sweep.sweep import SweepResult

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final = ("true", "false", "null")


def plain_value(text: str) -> float | bool | str | None:
    """*text*, a value as `-p` takes it, as a number, a truth value or None if it is one in JSON; else *text* itself.

    A number that no float holds, and an integer of more than 18 digits, stays a text.
    """
    if text not in _WORDS and not _NUMBER.fullmatch(text):
        return text
    value: float | bool | None = json.loads(text)
    return text if isinstance(value, float) and not math.isfinite(value) else value


def plain_sweep(result: SweepResult) -> dict[str, Any]:
    """The fields of *result* with plain values in `params`, `axes`, points and configurations."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    found["params"] = _plain(result.params)
    found["axes"] = {axis: [plain_value(text) for text in texts] for axis, texts in result.axes.items()}
    for kind in ("points", "configurations"):
        for each in found[kind]:
            each["values"] = _plain(each["values"])
    return found


def _plain(values: Mapping[str, str]) -> dict[str, Any]:
    return {name: plain_value(text) for name, text in values.items()}
