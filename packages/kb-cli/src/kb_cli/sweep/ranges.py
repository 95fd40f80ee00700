"""Values of an axis as text: `64,128,256`, `128:1024:128` and `128:4096:*2`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from kb_messages import BenchmarkError

MOST_VALUES = 100_000
"""Of one axis. Source: assumed; so many runs take hours."""
_NUMBER = r"[-+]?\d{1,18}(?:\.\d{1,18})?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER})(?::(\*?)({_NUMBER}))?")
_OPEN, _CLOSE = "[{(", "]})"


def values_of(text: str, where: str) -> tuple[str, ...]:
    """The values that *text* lists, in its order: parts between commas, of which each is a value or a range.

    A range `first:last:step` adds `step` (default 1) as long as the sum is at most `last`, and `first:last:*factor`
    multiplies. Commas within brackets and quotes belong to a value. *where* is the place in errors.

    Raises BenchmarkError for an empty part, a value that stands twice, a range that does not end, and too many values.
    """
    found: dict[str, None] = {}
    for part in _parts(text):
        if not part:
            raise BenchmarkError(where, f"an empty value in {text[:80]!r}", "values between commas")
        matched = _RANGE.fullmatch(part)
        for value in [part] if matched is None else _range(matched, where):
            if value in found:
                raise BenchmarkError(where, f"{value} twice", "every value once")
            found[value] = None
            if len(found) > MOST_VALUES:
                raise BenchmarkError(where, f"more than {MOST_VALUES} values", "fewer", "use --random")
    return tuple(found)


def _parts(text: str) -> list[str]:
    """*text* cut at the commas that stand neither in brackets nor in quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in _OPEN) - (char in _CLOSE)
        if char == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _range(matched: re.Match[str], where: str) -> Iterator[str]:
    first, last = Decimal(matched[1]), Decimal(matched[2])
    times, step = bool(matched[3]), Decimal(matched[4] or 1)
    grows = step > 1 and first > 0 if times else step > 0
    if not grows or last < first:
        fix = "write first:last:step or first:last:*factor, with first below last"
        raise BenchmarkError(where, f"the range {matched[0]}", "one that grows and ends", fix)
    value = first
    while value <= last:
        yield f"{value.normalize():f}"
        value = value * step if times else value + step
