"""Ranges of different lengths, one after the other, and the distinct ones of small numbers, without a loop."""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array


def spread(first: Array, count: Array) -> tuple[Array, Array]:
    """The numbers first[i], ..., first[i] + count[i] - 1 of every i in turn, and the i of each of them."""
    which = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return nth + np.repeat(first, count), which


def distinct(numbers: Array, bound: int) -> Array:
    """Each of *numbers*, which are from 0 to *bound* - 1, once, ascending: `np.unique` without sorting."""
    present = np.zeros(bound, np.bool_)
    present[numbers] = True
    return np.flatnonzero(present)
