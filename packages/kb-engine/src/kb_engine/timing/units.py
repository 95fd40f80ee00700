"""Exact conversions from the units of YAML (ns, GHz, GB/s, KiB) to the units of the simulation (integer ps, bytes).

A decimal in YAML becomes exactly the fraction that was written. A duration is rounded up once, when it is used.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from kb_topology import exact

PS_PER_NS = 1000
PS_PER_S = 10**12
KIB = 1024


@lru_cache(maxsize=1 << 12)
def ps_from_ns(value_ns: float | int) -> int:
    """Nanoseconds as picoseconds, rounded up."""
    return math.ceil(exact(value_ns) * PS_PER_NS)


def ns_text(t_ps: int) -> str:
    """Picoseconds as a text in nanoseconds, exact and without trailing zeros: `186.2 ns`."""
    whole, rest = divmod(t_ps, PS_PER_NS)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") + " ns"


Width: TypeAlias = tuple[float, Fraction]
"""The things that pass in a picosecond, as a float and as a fraction.

The float decides which of two widths is narrower, unless both are nearly equal, because Python compares fractions
slowly.
"""


class Rate:
    """The time that one thing (a byte, a cycle) takes: `ps_each`, an exact fraction of picoseconds.

    `per_ps` is how many of them pass in a picosecond, as the nearest float.
    """

    __slots__ = ("_denominator", "_numerator", "per_ps", "ps_each", "width")

    def __init__(self, ps_each: Fraction) -> None:
        self.ps_each = ps_each
        self._numerator = ps_each.numerator
        self._denominator = ps_each.denominator
        self.per_ps = self._denominator / self._numerator
        self.width: Width = self.per_ps, 1 / ps_each

    @classmethod
    def from_gbs(cls, bandwidth_gbs: float | int | Fraction) -> Rate:
        """A rate per byte from GB/s (1e9 bytes a second)."""
        return _of_gbs(bandwidth_gbs)

    @classmethod
    def from_ghz(cls, clock_ghz: float | int) -> Rate:
        """A rate per cycle from GHz."""
        return cls(PS_PER_NS / exact(clock_ghz))

    def ps(self, count: int) -> int:
        """Picoseconds for *count* things, rounded up once."""
        return -(-count * self._numerator // self._denominator)


@lru_cache(maxsize=1024)
def _of_gbs(bandwidth_gbs: float | int | Fraction) -> Rate:
    """The rate of a bandwidth. Cached, because a chip has thousands of links and few bandwidths."""
    return Rate(PS_PER_NS / (bandwidth_gbs if isinstance(bandwidth_gbs, Fraction) else exact(bandwidth_gbs)))
