"""Functions of integers that numpy does not have. All arguments are i64.

Some depend on the width of the type that the integers stand for; *bits* says it.
"""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array


def truncated_quotient(a: Array, b: Array) -> Array:
    """a / b rounded toward zero, as in C; 0 for b = 0."""
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & (b != 0)
    result: Array = quotient + (inexact & ((a < 0) != (b < 0)))
    return result


def truncated_remainder(a: Array, b: Array) -> Array:
    """What `truncated_quotient` leaves of a; 0 for b = 0."""
    rest: Array = np.where(b == 0, 0, a - truncated_quotient(a, b) * b)
    return rest


def high_product(a: Array, b: Array, bits: Array) -> Array:
    """The upper half of the product of two unsigned integers of *bits* bits, 32 at most."""
    mask = _mask(bits)
    product = (a & mask).astype(np.uint64) * (b & mask).astype(np.uint64)
    high: Array = (product >> bits.astype(np.uint64)).astype(np.int64)
    return high


def ones(x: Array, bits: Array) -> Array:
    """How many of the lowest *bits* bits of x are 1."""
    return np.bitwise_count((x & _mask(bits)).astype(np.uint64)).astype(np.int64)


def leading_zeros(x: Array, bits: Array) -> Array:
    """How many of the lowest *bits* bits of x are 0 before the first 1."""
    word = (x & _mask(bits)).astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    zeros: Array = bits - np.bitwise_count(word).astype(np.int64)
    return zeros


def _mask(bits: Array) -> Array:
    mask: Array = np.where(bits >= 64, -1, (np.int64(1) << np.minimum(bits, 63)) - 1)
    return mask
