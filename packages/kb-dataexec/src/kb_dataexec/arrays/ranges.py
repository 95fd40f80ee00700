"""Ranges of different lengths in one array, and the distinct values of small numbers, both without a loop."""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array


def spread(first: Array, count: Array) -> tuple[Array, Array]:
    """The numbers first[i], ..., first[i] + count[i] - 1 for every i in turn, and the i of each number."""
    which = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return nth + np.repeat(first, count), which


def distinct(numbers: Array, bound: int) -> Array:
    """The distinct values of *numbers*, ascending: `np.unique` without sorting. *numbers* are 0 to *bound* - 1."""
    present = np.zeros(bound, np.bool_)
    present[numbers] = True
    return np.flatnonzero(present)
