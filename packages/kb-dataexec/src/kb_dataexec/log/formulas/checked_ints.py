"""Integers as 64 bits each, as the op log has them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

import numpy as np
import numpy.typing as npt

from kb_messages import LogError


def int64s(values: Iterable[int]) -> npt.NDArray[np.int64]:
    """*values* as 64-bit integers, read-only. Raises LogError for one that is larger."""
    numbers = tuple(values)
    try:
        # Packing takes half the time of `array` and of numpy's own conversion of a list.
        return np.frombuffer(Struct(f"{len(numbers)}q").pack(*numbers), np.int64)
    except error:
        got, needs = "a time that does not fit 64 bits", "less than 106 days of simulated time"
        raise LogError("op log", got, needs, "look for a latency or bandwidth of that size") from None
