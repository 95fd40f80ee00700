"""Ranges of different lengths in one array, and distinct values of small numbers, without a Python loop."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_CLOSE: Final = 4
"""Keys are close if their range has at most so many numbers for each key. Source: assumed."""
_FEW: Final = 1 << 12
"""A range that is always close. Source: assumed."""


def spread(first: Array, count: Array) -> tuple[Array, Array]:
    """Returns the numbers first[i], ..., first[i] + count[i] - 1 for every i in turn, and the i of each number."""
    which = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return nth + np.repeat(first, count), which


def distinct(numbers: Array, bound: int) -> Array:
    """Returns the distinct values of *numbers*, ascending: `np.unique` without sorting.

    *numbers* are 0 to *bound* - 1.
    """
    present = np.zeros(bound, np.bool_)
    present[numbers] = True
    return np.flatnonzero(present)


def numbered(keys: Array) -> tuple[Array, Array]:
    """Returns the distinct values of integer *keys*, ascending, and the index of each key: `np.unique` with inverse.

    Keys that lie close together are not sorted.
    """
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = keys.astype(np.int64, copy=False)
    low, high = int(keys.min()), int(keys.max())
    if high - low > _CLOSE * len(keys) + _FEW:
        found, place = np.unique(keys, return_inverse=True)
        return found, place.reshape(-1)
    found = distinct(keys - low, high - low + 1)
    places = np.empty(high - low + 1, np.int64)
    places[found] = np.arange(len(found))
    return found + low, places[keys - low]


def numbered_rows(*columns: Array) -> Array:
    """Returns a number from 0 on for each row of integer *columns* of one length. Equal rows have one number."""
    rows = numbered(columns[0])[1]
    for column in columns[1:]:
        values, number = numbered(column)
        rows = numbered(rows * max(len(values), 1) + number)[1]
    return rows
