"""Integers as 64 bits each, as the op log has them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from kb_messages import LogError


def int64s(values: Iterable[int]) -> array[int]:
    """*values* as 64-bit integers. Raises LogError for one that is larger."""
    try:
        return array("q", values)
    except OverflowError:
        got, needs = "a time that does not fit 64 bits", "less than 106 days of simulated time"
        raise LogError("op log", got, needs, "look for a latency or bandwidth of that size") from None
