"""Which element of one list is which of another: by their names, because numbers change when one is inserted."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeAlias

Pair: TypeAlias = tuple[int | None, int | None]

_NAMES: Final = ("id", "name", "from", "to", "device", "test")
"""The keys of an element that tell it from others: those of a link are its two ends."""


def element_pairs(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    """The number of every element of *before* beside its number in *after*, None for one that the other list lacks.

    Texts, and dicts with equal names, are one element; of several such, the first of one list is the first of the
    other. What is left is matched in order, where as many are left in both lists: a link has another end then. Numbers
    and other elements without a name are matched in order too. Pairs have the order of *before*; what only *after* has
    comes last.
    """
    found = _by_name(before, after)
    taken = set(found.values())
    for named in (True, False):
        old = [at for at, each in enumerate(before) if at not in found and (_name(each) is not None) is named]
        new = [at for at, each in enumerate(after) if at not in taken and (_name(each) is not None) is named]
        if not named or len(old) == len(new):
            found.update(zip(old, new, strict=False))
    pairs: list[Pair] = [(at, found.get(at)) for at in range(len(before))]
    taken = set(found.values())
    return pairs + [(None, at) for at in range(len(after)) if at not in taken]


def moved(pairs: Sequence[Pair]) -> set[Pair]:
    """The fewest pairs that have to change places for the other pairs of two elements to stand in one order."""
    both = [(old, new) for old, new in pairs if old is not None and new is not None]
    ends: list[int] = []
    lengths = []
    for _, new in both:
        length = bisect_left(ends, new)
        ends[length : length + 1] = [new]
        lengths.append(length)
    stays = len(ends) - 1
    found: set[Pair] = set()
    for pair, length in zip(reversed(both), reversed(lengths), strict=True):
        if length == stays:
            stays -= 1
        else:
            found.add(pair)
    return found


def _by_name(before: Sequence[Any], after: Sequence[Any]) -> dict[int, int]:
    places: dict[Hashable, list[int]] = defaultdict(list)
    for at, each in enumerate(after):
        if (name := _name(each)) is not None:
            places[name].append(at)
    found: dict[int, int] = {}
    for at, each in enumerate(before):
        name = _name(each)
        if name is not None and places[name]:
            found[at] = places[name].pop(0)
    return found


def _name(element: Any) -> Hashable:
    """What tells *element* from others of its list, None for numbers and what has no name."""
    if isinstance(element, str):
        return element
    if not isinstance(element, dict):
        return None
    return tuple((key, str(element[key])) for key in _NAMES if key in element) or None
