"""Logarithmic and linear scales of pictures, with round marks."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, log2, log10
from typing import NamedTuple

_ROUND = (1, 2, 5)
_MOST_MARKS = 10


class Scale(NamedTuple):
    """Maps values from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        """Returns the place of *value*, in pixels."""
        low, high = (log10(self.low), log10(self.high)) if self.log else (self.low, self.high)
        share = ((log10(value) if self.log else value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def marks(self) -> list[float]:
        """Returns round values within the scale: on a logarithmic scale of many powers of ten, some of these alone."""
        if not self.log:
            step = _round_up((self.high - self.low) / 6)
            return [step * count for count in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        found = self._within(float(f"{digit}e{power}") for power in powers for digit in _ROUND)
        if len(found) <= _MOST_MARKS:
            return found
        found = self._within(float(f"1e{power}") for power in powers)
        return found[:: -(-len(found) // _MOST_MARKS)]

    def _within(self, values: Iterable[float]) -> list[float]:
        return [value for value in values if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]

    def binary_marks(self) -> list[float]:
        """Returns powers of two within the scale, or multiples of one, for numbers of bytes."""
        step = 2.0 ** max(0, ceil(log2((self.high - self.low) / 6)))
        if not self.log:
            return [step * count for count in range(ceil(self.low / step), floor(self.high / step) + 1)]
        return [2.0**power for power in range(ceil(log2(self.low)), floor(log2(self.high)) + 1)]


def scale(values: list[float], start: float, end: float, log: bool | None = None) -> Scale:
    """Returns a scale with room for *values*.

    It is logarithmic where all are positive and span more than a factor of 4, unless *log* decides.
    """
    low, high = min(values), max(values)
    if log is None:
        log = low > 0 and high / low > 4
    if log:
        low, high = low / 1.15, high * 1.15
        return Scale(low, high, start, end, True)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Scale(low - margin, high + margin, start, end, False)


def _round_up(value: float) -> float:
    power = 10.0 ** floor(log10(value))
    return next((digit * power for digit in _ROUND if digit * power >= value), 10 * power)
