"""Interning: equal immutable values of many blocks are one object, so that hot loops touch one cache line for all."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar

_Value = TypeVar("_Value", bound=Hashable)


@lru_cache(maxsize=1 << 12, typed=True)
def interned(value: _Value) -> _Value:
    """The object that stands for all values equal to *value*, of its type.

    Types are compared for *value* alone. The parts of a tuple or Struct must have one type each, because 1 equals 1.0.
    """
    return value
