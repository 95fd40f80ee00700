"""Numbers for the pairs of two columns, without sorting: a log has a million rows and few texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.trace.protobuf import Ints


class Pairs(NamedTuple):
    """The distinct pairs in ascending order, and for each row the number of its pair."""

    found: list[tuple[int, int]]
    number: Ints


def number_pairs(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Pairs:
    """Returns the pairs of two columns of equal length, small integers of 0 or more."""
    (firsts, first_number), (seconds, second_number) = _numbered(first), _numbered(second)
    keys, number = _numbered(first_number * len(seconds) + second_number)
    pairs = np.stack((firsts[keys // max(len(seconds), 1)], seconds[keys % max(len(seconds), 1)]), axis=1)
    return Pairs([(one, other) for one, other in pairs.tolist()], number)


def _numbered(column: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Returns the distinct values in ascending order, and for each row the number of its value."""
    values = column.astype(np.intp)  # which numpy counts and looks up by without a further copy
    there = np.bincount(values) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[values]
