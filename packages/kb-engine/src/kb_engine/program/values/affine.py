"""Affine: arrays of integers given by a base and a step for each axis. Operations take the same time for any size."""

from __future__ import annotations

from math import prod
from operator import add
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

I64_LOW, I64_HIGH = -(1 << 63), (1 << 63) - 1


class Affine(NamedTuple):
    """The integers `base + sum(step * index)` over the axes of `shape`. An axis of one element has step 0."""

    shape: tuple[int, ...]
    base: int
    steps: tuple[int, ...]

    @classmethod
    def constant(cls, value: int, shape: tuple[int, ...] = ()) -> Affine:
        """*value* at every place of *shape*."""
        return cls(shape, value, (0,) * len(shape))

    @classmethod
    def along(cls, shape: tuple[int, ...], axis: int) -> Affine:
        """The index along *axis* at every place of *shape*."""
        return cls(shape, 0, tuple(int(number == axis and n > 1) for number, n in enumerate(shape)))

    @property
    def low(self) -> int:
        """The smallest of the integers."""
        found = self.base
        for n, step in zip(self.shape, self.steps, strict=True):
            if step < 0:
                found += step * (n - 1)
        return found

    @property
    def high(self) -> int:
        """The largest of the integers."""
        found = self.base
        for n, step in zip(self.shape, self.steps, strict=True):
            if step > 0:
                found += step * (n - 1)
        return found

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which the integers change."""
        return tuple([axis for axis, step in enumerate(self.steps) if step])

    @property
    def fits(self) -> bool:
        """Whether every integer fits i64."""
        return self.low >= I64_LOW and self.high <= I64_HIGH

    def data(self) -> npt.NDArray[np.int64]:
        """The integers as an array."""
        found = np.full(self.shape, self.base, np.int64)
        for axis, step in enumerate(self.steps):
            if step:
                along = np.arange(self.shape[axis], dtype=np.int64) * step
                found += along.reshape(-1, *(1,) * (len(self.shape) - axis - 1))
        return found

    def broadcast(self, shape: tuple[int, ...]) -> Affine:
        """The same integers over *shape*, to which `shape` has to broadcast."""
        if shape == self.shape:
            return self
        return Affine(shape, self.base, (0,) * (len(shape) - len(self.shape)) + self.steps)

    def plus(self, other: Affine) -> Affine:
        """The sum with *other*, which has the same shape."""
        return Affine(self.shape, self.base + other.base, tuple(map(add, self.steps, other.steps)))

    def times(self, factor: int) -> Affine:
        """Every integer times *factor*."""
        return Affine(self.shape, self.base * factor, tuple([step * factor for step in self.steps]))

    def floor_div(self, divisor: int) -> Affine | None:
        """Every integer divided by *divisor*, not 0, and rounded down; None where that is not affine."""
        if all(step % divisor == 0 for step in self.steps):
            return Affine(self.shape, self.base // divisor, tuple(step // divisor for step in self.steps))
        first, last = self.low // divisor, self.high // divisor
        return Affine.constant(first, self.shape) if first == last else None

    def modulo(self, divisor: int) -> Affine | None:
        """Every integer modulo *divisor*, not 0, by Python's rule for signs; None where that is not affine."""
        quotient = self.floor_div(divisor)
        return None if quotient is None else self.plus(quotient.times(-divisor))

    def at(self, key: tuple[Any, ...]) -> Affine | None:
        """The integers at *key*, by numpy's basic indexing; None for an index out of range and for an empty slice."""
        base, places = self.base, list[tuple[int, int]]()
        axes = iter(zip(self.shape, self.steps, strict=True))
        for each in key:
            if each is None:
                places.append((1, 0))
                continue
            n, step = next(axes)
            if isinstance(each, slice):
                chosen = range(n)[each]
                if not chosen:
                    return None
                base += chosen.start * step
                places.append((len(chosen), step * chosen.step if len(chosen) > 1 else 0))
            elif -n <= each < n:
                base += each % n * step
            else:
                return None
        return Affine(tuple(n for n, _ in places), base, tuple(step for _, step in places))

    def transposed(self, order: tuple[int, ...]) -> Affine:
        """The axes in another *order*."""
        return Affine(tuple(self.shape[axis] for axis in order), self.base, tuple(self.steps[axis] for axis in order))

    def reshaped(self, shape: tuple[int, ...]) -> Affine | None:
        """The same integers, row by row, over another *shape* of as many places; None where that is not affine."""
        merged = merged_axes(self.shape, (self.steps,))
        places = [each for each in merged if each[0] > 1]
        steps = []
        for n in reversed(shape):
            if n == 1:
                steps.append(0)
                continue
            size, (step,) = places.pop() if places else (1, (0,))
            if size % n:
                return None
            steps.append(step)
            if size > n:
                places.append((size // n, (step * n,)))
        return Affine(shape, self.base, tuple(reversed(steps)))


def merged_axes(shape: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> list[tuple[int, tuple[int, ...]]]:
    """The axes of *shape*, where neighbours are joined that are one axis for each of *steps*.

    Each axis is its number of places and its step in each of *steps*. Axes of one place are left out.
    """
    merged: list[tuple[int, tuple[int, ...]]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        mine = tuple(each[axis] for each in steps)
        if merged and all(outer == n * inner for outer, inner in zip(merged[-1][1], mine, strict=True)):
            n *= merged.pop()[0]
        merged.append((n, mine))
    return merged


def places_before(shape: tuple[int, ...]) -> tuple[int, ...]:
    """For each axis of *shape*, the number of places from one index to the next, row by row."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def sides_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a matrix that holds a value of *shape*: the last axis is along a row."""
    return prod(shape[:-1]), shape[-1] if shape else 1
