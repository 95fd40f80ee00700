"""Parts of error sentences: hints at near names, lists, and values that are short enough to quote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

_SHOWN = 60
_LIKE = 0.6  # Source: assumed; the cutoff of difflib.get_close_matches
_PART = 0.85  # the weight of one word of a name; the whole name has 1. Source: assumed
_MOST = 3


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean 'x'?` for the name closest to *name*, or the empty string when none is close.

    Up to three names that are equally close are all named; of more than three, the last in the alphabet.
    """
    scores = _likenesses(name, names)
    best = max(scores.values(), default=None)
    close = [each for each, score in scores.items() if score == best]
    shown = [repr(each) for each in (close if len(close) <= _MOST else [max(close)])]
    return f"did you mean {' or '.join(shown)}?" if shown else ""


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """At most three of the *names* that are close to *name*, the closest first."""
    scores = _likenesses(name, names)
    return sorted(scores, key=lambda each: scores[each], reverse=True)[:_MOST]


def _likenesses(name: str, names: Iterable[str]) -> dict[str, tuple[int, float]]:
    """The likeness of each of the *names* that resembles *name*.

    A likeness is (shared characters of a namespace, likeness of the rest, at most 1).
    """
    scores = {each: _likeness(name[:_SHOWN], each) for each in names}
    return {each: score for each, score in scores.items() if score[1] > 0}


def _likeness(name: str, other: str) -> tuple[int, float]:
    """The characters of the namespace that two names share, and the likeness of the rest.

    The rest is compared as a whole, and *name* also with each word of *other*.
    """
    shared = 0
    for end in re.finditer(r"[./]", name):
        if name[: end.end()] != other[: end.end()]:
            break
        shared = end.end()
    rest, other_rest = name[shared:].casefold(), other[shared:].casefold()
    if rest == other_rest:
        return shared, 1.0
    words = [word for word in re.split(r"[\W_]+", other_rest) if word not in ("", other_rest)]
    return shared, max([0.99 * _ratio(rest, other_rest), *(_PART * _ratio(rest, word) for word in words)])


def _ratio(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, other, one, autojunk=False)
    bounds = matcher.real_quick_ratio, matcher.quick_ratio
    found = matcher.ratio() if all(bound() >= _LIKE for bound in bounds) else 0.0
    return found if found >= _LIKE else 0.0


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
