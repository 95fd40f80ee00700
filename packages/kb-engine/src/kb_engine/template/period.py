"""Which stretch of a list of steps is the same steps again and again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np

LEAST_TURNS: Final = 16
"""Turns of a loop for which a period is looked for. Source: assumed; a look costs as much as some turns."""
_MOST_LENGTHS: Final = 64


class LoopStretch(NamedTuple):
    """From step `begin` on, `length` steps come `turns` times."""

    begin: int
    length: int
    turns: int

    @property
    def end(self) -> int:
        """The first step after it."""
        return self.begin + self.length * self.turns


def longest_stretch(kinds: Sequence[Hashable], may_end: Sequence[bool]) -> LoopStretch | None:
    """The stretch of steps of *kinds*, around the middle one, that has the shortest turns and half of all steps.

    Each turn ends with a step for which *may_end* is true. None where there is no stretch of `LEAST_TURNS`.
    """
    ids = np.array(_numbered(kinds), dtype=np.int64)
    n, middle = len(ids), len(ids) // 2
    if n < LEAST_TURNS:
        return None
    again = np.flatnonzero(ids[middle + 1 :] == ids[middle]) + 1
    for length in again[again <= n // LEAST_TURNS][:_MOST_LENGTHS].tolist():
        others = np.flatnonzero(ids[:-length] != ids[length:])
        place = int(np.searchsorted(others, middle))
        first = int(others[place - 1]) + 1 if place else 0
        end = (int(others[place]) if place < len(others) else n - length) + length
        begin = next((at for at in range(first, first + length) if may_end[min(at + length, n) - 1]), None)
        if begin is None:
            continue
        turns = (end - begin) // length
        if turns >= LEAST_TURNS and turns * length * 2 >= n:
            return LoopStretch(begin, length, turns)
    return None


def _numbered(kinds: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(kind, len(numbers)) for kind in kinds]
