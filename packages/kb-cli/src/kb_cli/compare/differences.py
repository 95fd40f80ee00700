"""The values that differ between two documents of dicts, lists and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from kb_cli.compare.elements import Pair, element_pairs, moved

Path: TypeAlias = tuple[str | int, ...]


class _NotThere:
    """The class of `NOT_THERE`."""

    def __repr__(self) -> str:
        return "NOT_THERE"


NOT_THERE: Final = _NotThere()
"""What one of two documents has at a place that it does not have."""


class ValueDifference(NamedTuple):
    """`before` at `path` of the first document is `after` at `path_after` of the second.

    A value that one document does not have is NOT_THERE, and its path is that in the other document. An element of a
    list that changed places among elements that both lists have is a difference whose `before` and `after` are its
    numbers, and `moved` is True.
    """

    path: Path
    path_after: Path
    before: Any
    after: Any
    moved: bool = False


def differences(before: Any, after: Any, path: Path = (), path_after: Path = ()) -> Iterator[ValueDifference]:
    """Every difference of two documents in the order of the first. What only the second has follows its list or dict.

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
    """The numbers of an element in both lists; in a list that lacks it, the number in the other one."""
    old, new = pair
    if old is None:
        assert new is not None
        return new, new
    return old, old if new is None else new


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _parts(before: Any, after: Any, path: Path, path_after: Path) -> Iterator[ValueDifference]:
    """The parts of what one of the two documents does not have."""
    there = after if before is NOT_THERE else before
    for key, value in there.items() if isinstance(there, dict) else enumerate(there):
        old, new = (NOT_THERE, value) if before is NOT_THERE else (value, NOT_THERE)
        yield from differences(old, new, (*path, key), (*path_after, key))
