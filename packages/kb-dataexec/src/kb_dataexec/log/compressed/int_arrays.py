"""Integers as 64 bits each, as the op log has them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, calcsize, error
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_messages import OFFSET_BITS, OFFSET_MASK, LogError

INT64: Final = "l" if calcsize("l") == 8 else "q"
"""The letter by which `struct` packs 64 bits. Both give the same bytes. Python 3.11 packs numbers of 2^30 and more as
`l` in a third of the time that `q` takes, and times are such numbers. `l` has 32 bits on Windows."""


def int64s(values: Iterable[int]) -> npt.NDArray[np.int64]:
    """*values* as 64-bit integers, read-only. Raises LogError for one that is larger."""
    numbers = tuple(values)
    try:
        # Packing takes less time than `array` and numpy's own conversion of a list.
        return np.frombuffer(Struct(f"{len(numbers)}{INT64}").pack(*numbers), np.int64)
    except error:
        got, needs = "a time that does not fit 64 bits", "less than 106 days of simulated time"
        raise LogError("op log", got, needs, "look for a latency or bandwidth of that size") from None


Ints = npt.NDArray[np.int64]


def addresses_of(addresses: Any) -> npt.NDArray[Any]:
    """*addresses*, nested sequences, as an array: of int64, or of Python's integers if one needs more bits."""
    try:
        return np.array(addresses, dtype=np.int64)
    except OverflowError:
        return np.array(addresses, dtype=object)


def owners_and_offsets(addresses: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """The two parts of each of *addresses*."""
    owners, offsets = addresses >> OFFSET_BITS, addresses & OFFSET_MASK
    return owners.astype(np.int64, copy=False), offsets.astype(np.int64, copy=False)
