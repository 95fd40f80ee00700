"""Values that hundreds of blocks hold alike, kept once: they are then one line of a cache, not one for each block."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar

_Value = TypeVar("_Value", bound=Hashable)


@lru_cache(maxsize=1 << 12, typed=True)
def interned(value: _Value) -> _Value:
    """The one object for equal values of one type. What a tuple or Struct holds must be of one type, too."""
    return value
