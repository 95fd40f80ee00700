"""Arrays of 64-bit integers, and of addresses.

An address can have more than the 63 bits of numpy's integers: in SIPs from number 8 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, calcsize, error
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_messages import OFFSET_BITS, OFFSET_MASK, LogError

INT64: Final = "l" if calcsize("l") == 8 else "q"
"""The letter with which `struct` packs 64 bits. `l` and `q` give the same bytes, but Python 3.11 packs numbers of 2^30
and more, such as times, as `l` in a third of the time. `l` has 32 bits on Windows."""


def int64s(values: Iterable[int]) -> npt.NDArray[np.int64]:
    """Returns *values* as an array of int64, read-only. Raises LogError for a value that needs more bits."""
    numbers = tuple(values)
    try:
        # Packing takes less time than `array` and numpy's own conversion of a list.
        return np.frombuffer(Struct(f"{len(numbers)}{INT64}").pack(*numbers), np.int64)
    except error:
        got, needs = "a time that does not fit 64 bits", "less than 106 days of simulated time"
        raise LogError("op log", got, needs, "look for a latency or bandwidth of that size") from None


Ints = npt.NDArray[np.int64]


def addresses_of(addresses: Any) -> npt.NDArray[Any]:
    """Returns *addresses*, nested sequences, as an array of int64, or of Python integers if one needs more bits."""
    try:
        return np.array(addresses, dtype=np.int64)
    except OverflowError:
        return np.array(addresses, dtype=object)


def owners_and_offsets(addresses: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Returns the owner and the offset of each of *addresses*, as two arrays of int64."""
    owners, offsets = addresses >> OFFSET_BITS, addresses & OFFSET_MASK
    return owners.astype(np.int64, copy=False), offsets.astype(np.int64, copy=False)
