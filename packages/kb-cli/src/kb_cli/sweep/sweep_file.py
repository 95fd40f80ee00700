"""A sweep as JSON: sweep.json, which a page reads again, and the object of `--json` with plain values."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kb_cli.run.base.files import folder_path, write_json
from kb_cli.sweep.sweep import SweepResult
from kb_dataexec.files import UnreadableJsonError, json_decoder
from kb_messages import BenchmarkError, file_in, read_bytes

SWEEP: Final = "sweep.json"
_MOST_NBYTES: Final = 1 << 30
"""The most bytes of a file that is read. Source: assumed; a million points have some 700 MB."""
_decode_sweep: Final = json_decoder(SweepResult)


def write_sweep(folder: Path, result: SweepResult) -> None:
    """Writes *result* to sweep.json in *folder*, without the fields that belong to this command and not to the
    sweep.
    """
    plain = msgspec.to_builtins(result)
    for name in ("computed", "known"):
        del plain[name]
    write_json(folder / SWEEP, plain)


def read_sweep(folder: str | os.PathLike[str]) -> SweepResult:
    """Returns the sweep in *folder*, which `kb sweep` wrote; its counts of points computed and known are 0.

    Raises BenchmarkError for a file that is not there, or that is not as `write_sweep` writes it.
    """
    path = file_in(folder_path(folder), SWEEP, BenchmarkError)
    data = read_bytes(path, BenchmarkError, _MOST_NBYTES)
    try:
        found = _decode_sweep(data)
    except UnreadableJsonError as error:
        raise BenchmarkError(str(path), f"no sweep ({error})", "a file that kb sweep wrote") from None
    if (wrong := _inconsistency(found)) is not None:
        raise BenchmarkError(str(path), wrong, "a file that kb sweep wrote")
    return found


def _inconsistency(found: SweepResult) -> str | None:
    """Returns a contradiction in *found*, which would make a page fail; None if there is none."""
    within = set(found.axes) - set(found.over) - set(found.best)
    if any(not values for values in found.axes.values()):
        return "an axis without values"
    if any(each.values.keys() != found.axes.keys() for each in found.points):
        return "a point of other axes"
    if any(each.values.keys() != within or len(each.costs) != len(found.costs) for each in found.configurations):
        return "a configuration of other axes or costs"
    if any(each.mapping.keys() != set(found.best) for each in found.configurations):
        return "a configuration of another mapping"
    if any(not 0 <= at < len(found.configurations) for at in found.front):
        return "a Pareto front of configurations that are not there"
    return None


_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final = ("true", "false", "null")


def plain_value(text: str) -> float | bool | str | None:
    """Returns *text*, a value as `-p` takes it, as a number, a truth value or None if it is one in JSON; else *text*
    itself.

    A number that no float holds, and an integer of more than 18 digits, stays a text.
    """
    if text not in _WORDS and not _NUMBER.fullmatch(text):
        return text
    value: float | bool | None = json.loads(text)
    return text if isinstance(value, float) and not math.isfinite(value) else value


def plain_sweep(result: SweepResult) -> dict[str, Any]:
    """Returns the fields of *result* with plain values in `params`, `axes`, points and configurations."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    found["params"] = _plain(result.params)
    found["axes"] = {axis: [plain_value(text) for text in texts] for axis, texts in result.axes.items()}
    for kind in ("points", "configurations"):
        for each in found[kind]:
            each["values"] = _plain(each["values"])
    for each in found["configurations"]:
        each["mapping"] = _plain(each["mapping"])
    return found


def _plain(values: Mapping[str, str]) -> dict[str, Any]:
    return {name: plain_value(text) for name, text in values.items()}
