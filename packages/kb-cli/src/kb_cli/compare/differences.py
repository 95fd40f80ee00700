"""The values that differ between two documents of dicts, lists and values. Elements of lists are matched by their
names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Pair: TypeAlias = tuple[int | None, int | None]

_NAMES: Final = ("id", "name", "from", "to", "device", "test")
"""The keys that identify an element of a list. The two ends identify a link."""


def element_pairs(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    """Returns the number of every element of *before* beside its number in *after*, None for one that the other list
    lacks.

    Equal texts, and dicts with equal names, are one element; of several such, the first of one list matches the first
    of the other. The remaining named elements are matched in order if both lists have equally many of them left: a link
    then has another end. Numbers and other elements without a name are matched in order too. Pairs have the order of
    *before*; elements of *after* alone come last.
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
    """Returns the fewest pairs that have to change places so that all other pairs of two elements have one order."""
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
    """Returns the identity of *element* within its list, None for a number and for an element without a name."""
    if isinstance(element, str):
        return element
    if not isinstance(element, dict):
        return None
    return tuple((key, str(element[key])) for key in _NAMES if key in element) or None


Path: TypeAlias = tuple[str | int, ...]


class _NotThere:
    """The class of `NOT_THERE`."""

    def __repr__(self) -> str:
        return "NOT_THERE"


NOT_THERE: Final = _NotThere()
"""The value of a document at a place that it does not have."""


class ValueDifference(NamedTuple):
    """`before` at `path` of the first document is `after` at `path_after` of the second.

    A value that one document does not have is NOT_THERE, and its path is the path in the other document. An element of
    a list that changed places among elements that both lists have is a difference whose `before` and `after` are its
    numbers, and `moved` is True.
    """

    path: Path
    path_after: Path
    before: Any
    after: Any
    moved: bool = False


def differences(before: Any, after: Any, path: Path = (), path_after: Path = ()) -> Iterator[ValueDifference]:
    """Yields every difference of two documents in the order of the first. Additions of the second follow their list or
    dict.

    Elements of lists are matched by `element_pairs`. The order of the keys of a dict is no difference.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            value, other = before.get(key, NOT_THERE), after.get(key, NOT_THERE)
            yield from differences(value, other, (*path, key), (*path_after, key))
    elif isinstance(before, list) and isinstance(after, list):
        pairs = element_pairs(before, after)
        changed = moved(pairs)
        for pair in pairs:
            old, new = pair
            value = NOT_THERE if old is None else before[old]
            other = NOT_THERE if new is None else after[new]
            at, at_after = _places(pair)
            way, way_after = (*path, at), (*path_after, at_after)
            yield from differences(value, other, way, way_after)
            if pair in changed:
                yield ValueDifference(way, way_after, old, new, moved=True)
    elif (_has_parts(before) and after is NOT_THERE) or (before is NOT_THERE and _has_parts(after)):
        yield from _parts(before, after, path, path_after)
    elif isinstance(before, bool) is not isinstance(after, bool) or before != after:
        yield ValueDifference(path, path_after, before, after)


def _places(pair: Pair) -> tuple[int, int]:
    """Returns the numbers of an element in both lists; in a list that lacks it, the number in the other one."""
    old, new = pair
    if old is None:
        assert new is not None
        return new, new
    return old, old if new is None else new


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _parts(before: Any, after: Any, path: Path, path_after: Path) -> Iterator[ValueDifference]:
    """Yields the parts of a value that one of the two documents does not have."""
    there = after if before is NOT_THERE else before
    for key, value in there.items() if isinstance(there, dict) else enumerate(there):
        old, new = (NOT_THERE, value) if before is NOT_THERE else (value, NOT_THERE)
        yield from differences(old, new, (*path, key), (*path_after, key))
