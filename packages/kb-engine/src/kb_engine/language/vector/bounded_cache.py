"""What a function found, by the key that decides it."""

from __future__ import annotations

from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST_KEPT: Final = 4096
"""Source: assumed; kernels use far fewer."""


class BoundedCache(dict[K, V]):
    """Values that follow from their keys alone. It forgets all of them when they are many."""

    def keep(self, key: K, value: V) -> V:
        """Remember *value* under *key*, and return it."""
        if len(self) >= _MOST_KEPT:
            self.clear()
        self[key] = value
        return value
