"""Functions of integers that numpy lacks. All arguments are i64, or all are u64.

Some depend on *bits*, the width of the type that the integers stand for.
"""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array


def truncated_quotient(a: Array, b: Array) -> Array:
    """a / b rounded toward zero, as in C; 0 for b = 0."""
    quotient: Array = np.floor_divide(a, b)
    if a.dtype == np.uint64:
        return quotient
    inexact = (quotient * b != a) & (b != 0)
    result: Array = quotient + (inexact & ((a < 0) != (b < 0)))
    return result


def truncated_remainder(a: Array, b: Array) -> Array:
    """a - b * `truncated_quotient`; 0 for b = 0."""
    rest: Array = np.where(b == 0, 0, a - truncated_quotient(a, b) * b)
    return rest


def high_product(a: Array, b: Array, bits: Array) -> Array:
    """The upper half of the product of two unsigned integers of *bits* bits, from halves of 32 bits."""
    one, two = _word(a, bits), _word(b, bits)
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    (one_high, one_low), (two_high, two_low) = ((each >> half, each & low) for each in (one, two))
    cross = one_high * two_low + (one_low * two_low >> half)
    other = one_low * two_high + (cross & low)
    high = one_high * two_high + (cross >> half) + (other >> half)
    found: Array = np.where(bits.astype(np.uint64) == 64, high, one * two >> bits.astype(np.uint64)).astype(a.dtype)
    return found


def ones(x: Array, bits: Array) -> Array:
    """How many of the lowest *bits* bits of x are 1."""
    return np.bitwise_count(_word(x, bits)).astype(x.dtype)


def leading_zeros(x: Array, bits: Array) -> Array:
    """How many of the lowest *bits* bits of x are 0 before the first 1."""
    word = _word(x, bits)
    for shift in (1, 2, 4, 8, 16, 32):
        word = word | word >> np.uint64(shift)
    zeros: Array = bits - np.bitwise_count(word).astype(bits.dtype)
    return zeros


def lowest_one(x: Array, bits: Array) -> Array:
    """The place of the lowest 1 among the lowest *bits* bits of x, counted from 1; 0 if there is none."""
    word = _word(x, bits)
    below = (word & (~word + np.uint64(1))) - np.uint64(1)
    place: Array = np.where(word == 0, 0, np.bitwise_count(below) + 1).astype(x.dtype)
    return place


def reversed_bits(x: Array, bits: Array) -> Array:
    """The lowest *bits* bits of x in reverse order."""
    word = _word(x, bits)
    for shift, mask in _SWAPS:
        word = (word >> np.uint64(shift) & np.uint64(mask)) | ((word & np.uint64(mask)) << np.uint64(shift))
    found: Array = (word >> (np.uint64(64) - bits.astype(np.uint64))).astype(x.dtype)
    return found


def _word(x: Array, bits: Array) -> Array:
    """The lowest *bits* bits of x, as u64."""
    width = bits.astype(np.uint64)
    mask = (np.uint64(1) << np.minimum(width, 63).astype(np.uint64)) - np.uint64(1)
    word: Array = x.astype(np.uint64) & np.where(width >= 64, np.uint64(2**64 - 1), mask)
    return word


_SWAPS = (
    *((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)),
    *((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)),
)
"""Neighbours of so many bits that change places, and the lower ones of them."""
