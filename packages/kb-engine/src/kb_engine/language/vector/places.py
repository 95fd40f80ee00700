"""Places in a full TCM for the results of a program: free bytes, and the bytes of inputs that nothing needs afterwards.

A result may lie over several inputs, and a large input may hold several results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Stretch(NamedTuple):
    """Bytes of TCM from `start` up to `end`, which are free, or which an input gives up."""

    start: int
    end: int
    is_free: bool


def places_among(stretches: Sequence[Stretch], sizes: Sequence[int], apart: bool) -> list[int] | None:
    """The addresses of results of *sizes* bytes in *stretches*, which do not overlap; None where a result has no place.

    The largest result is placed first. Each begins where a stretch begins, and takes the adjacent stretches that hold
    the fewest bytes of inputs, of equals the lowest. With *apart*, no two results lie in one stretch.
    """
    left = sorted(stretches)
    places = [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        size, best, fewest = sizes[number], None, 0
        for at in range(len(left)):
            given = _given_up(left, at, size)
            if given is not None and (best is None or given < fewest):
                best, fewest = at, given
        if best is None:
            return None
        start = places[number] = left[best].start
        if apart:
            left = [each for each in left if each.end <= start or each.start >= start + size]
        else:
            left = _without(left, start, start + size)
    return places


def _given_up(left: Sequence[Stretch], at: int, size: int) -> int | None:
    """The bytes of inputs among the *size* bytes from stretch *at* on; None where the adjacent stretches end before."""
    reached = left[at].start
    end, given = reached + size, 0
    for each in left[at:]:
        if each.start != reached:
            return None
        reached = each.end
        given += 0 if each.is_free else min(each.end, end) - each.start
        if reached >= end:
            return given
    return None


def _without(left: Sequence[Stretch], start: int, end: int) -> list[Stretch]:
    """*left* without the bytes from *start* up to *end*."""
    kept = []
    for each in left:
        for low, high in ((each.start, min(each.end, start)), (max(each.start, end), each.end)):
            if low < high:
                kept.append(each._replace(start=low, end=high))
    return kept
