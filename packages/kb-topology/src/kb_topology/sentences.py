"""Parts of error sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_SHOWN = 60


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean 'x'?` for the name closest to *name*, or the empty string when none is close."""
    close = get_close_matches(name[:_SHOWN], list(names), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def listing(names: Iterable[str], limit: int = 24) -> str:
    """At most *limit* of the *names*, joined by commas, then the number of the others."""
    every = list(names)
    shown = ", ".join(every[:limit]) or "none"
    return f"{shown} and {len(every) - limit} more" if len(every) > limit else shown


def short(value: object) -> str:
    """*value* in YAML terms, on one line and short enough for a sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return cut(repr(value))


def cut(text: str) -> str:
    """*text*, shortened when it is too long for a sentence."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
