"""Philox4x32: random numbers that follow from a counter and a key.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_MULTIPLIERS: Final = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_RAISES: Final = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW: Final = np.uint64(2**32 - 1)
_HALF: Final = np.uint64(32)


def philox(
    c0: Array, c1: Array, c2: Array, c3: Array, low_key: Array, high_key: Array, rounds: Array, word: Array
) -> Array:
    """Returns word number *word* (0 to 3) of the result of *rounds* rounds on a counter of 4 words and a key of 2.

    The lowest 32 bits of each argument count. *rounds* and *word* may differ from element to element.
    """
    given = np.broadcast_arrays(*(each.astype(np.uint64) & _LOW for each in (c0, c1, c2, c3)))
    w0, w1, w2, w3 = given
    k0, k1 = (each.astype(np.uint64) & _LOW for each in (low_key, high_key))
    for number in range(int(rounds.max(initial=0))):
        before = w0, w1, w2, w3
        one, two = w0 * _MULTIPLIERS[0], w2 * _MULTIPLIERS[1]
        w0, w1, w2, w3 = (two >> _HALF) ^ w1 ^ k0, two & _LOW, (one >> _HALF) ^ w3 ^ k1, one & _LOW
        if rounds.size > 1:
            w0, w1, w2, w3 = (np.where(number < rounds, *each) for each in zip((w0, w1, w2, w3), before, strict=True))
        k0, k1 = (k0 + _RAISES[0]) & _LOW, (k1 + _RAISES[1]) & _LOW
    if word.size == 1:
        return (w0, w1, w2, w3)[int(word.flat[0]) % 4].astype(c0.dtype)
    return np.choose(word.astype(np.intp), (w0, w1, w2, w3), mode="wrap").astype(c0.dtype)
