"""Affine: arrays of integers given by a base and a step for each axis; and masks as boxes and as half spaces of them.

Operations take the same time for any size.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import add, eq, ge, gt, index, le, lt, ne
from typing import Any, NamedTuple, TypeAlias

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


def basic_key(key: Any, n_axes: int) -> tuple[Any, ...] | None:
    """*key* as integers, slices of integers and None, one for each of *n_axes* axes, and the Nones besides.

    None for a key of anything else, and for a key of too many axes.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    for number, each in enumerate(keys):
        if each is None or each is Ellipsis or isinstance(each, slice):
            continue
        if isinstance(each, (bool, np.bool_)) or not hasattr(each, "__index__") or getattr(each, "shape", ()) != ():
            return None
        keys[number] = index(each)
    missing = n_axes - sum(each is not None and each is not Ellipsis for each in keys)
    n_ellipses = sum(each is Ellipsis for each in keys)
    if missing < 0 or n_ellipses > 1:
        return None
    at = next((number for number, each in enumerate(keys) if each is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * missing
    return tuple(keys)


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


Interval: TypeAlias = tuple[int, int]


class IndexBox(NamedTuple):
    """A mask that is true where the index along each axis is in that axis's interval (start, end), end excluded."""

    shape: tuple[int, ...]
    intervals: tuple[Interval, ...]

    @classmethod
    def everywhere(cls, shape: tuple[int, ...], value: bool = True) -> IndexBox:
        """*value* at every place of *shape*."""
        return cls(shape, tuple((0, n if value else 0) for n in shape))

    @property
    def is_empty(self) -> bool:
        """Whether no place is true."""
        return any(start >= end for start, end in self.intervals)

    @property
    def is_everywhere(self) -> bool:
        """Whether every place is true."""
        return all((start, end) == (0, n) for n, (start, end) in zip(self.shape, self.intervals, strict=True))

    def data(self) -> npt.NDArray[np.bool_]:
        """The mask as an array of booleans."""
        found = np.zeros(self.shape, np.bool_)
        found[tuple(slice(start, max(start, end)) for start, end in self.intervals)] = True
        return found

    def broadcast(self, shape: tuple[int, ...]) -> IndexBox:
        """The same mask over *shape*, to which `shape` has to broadcast."""
        new = len(shape) - len(self.shape)
        intervals = [(0, n) for n in shape[:new]]
        for n, size, (start, end) in zip(self.shape, shape[new:], self.intervals, strict=True):
            intervals.append((start, end) if n == size else (0, size if end > start else 0))
        return IndexBox(shape, tuple(intervals))

    def within(self, other: IndexBox) -> IndexBox:
        """The conjunction with *other*, of the same shape."""
        both = zip(self.intervals, other.intervals, strict=True)
        return IndexBox(self.shape, tuple((max(a, c), min(b, d)) for (a, b), (c, d) in both))

    def inverted(self) -> IndexBox | None:
        """The inverse of the mask; None where that is no box."""
        if self.is_empty or self.is_everywhere:
            return IndexBox.everywhere(self.shape, self.is_empty)
        cut = [axis for axis, n in enumerate(self.shape) if self.intervals[axis] != (0, n)]
        start, end = self.intervals[cut[0]]
        n = self.shape[cut[0]]
        if len(cut) > 1 or (start > 0 and end < n):
            return None
        rest = (end, n) if start == 0 else (0, start)
        return IndexBox(self.shape, (*self.intervals[: cut[0]], rest, *self.intervals[cut[0] + 1 :]))

    def at(self, key: tuple[Any, ...]) -> IndexBox | None:
        """The mask at *key*, by numpy's basic indexing; None for steps, for one place, and for an empty slice."""
        intervals, shape, axes, empty = list[Interval](), list[int](), iter(range(len(self.shape))), False
        for each in key:
            if each is None:
                shape.append(1)
                intervals.append((0, 1))
                continue
            axis = next(axes)
            n, (start, end) = self.shape[axis], self.intervals[axis]
            if not isinstance(each, slice):
                if not -n <= each < n:
                    return None
                empty = empty or not start <= each % n < end
                continue
            chosen = range(n)[each]
            if not chosen or chosen.step != 1:
                return None
            shape.append(len(chosen))
            intervals.append((max(0, start - chosen.start), min(len(chosen), end - chosen.start)))
        if not shape:
            return None
        return IndexBox.everywhere(tuple(shape), False) if empty else IndexBox(tuple(shape), tuple(intervals))

    def transposed(self, order: tuple[int, ...]) -> IndexBox:
        """The axes in another *order*."""
        return IndexBox(tuple(self.shape[axis] for axis in order), tuple(self.intervals[axis] for axis in order))


class HalfSpace(NamedTuple):
    """A mask that is true where `integers` are not negative. They change along two axes or more; along one axis, the
    mask is an `IndexBox`."""

    integers: Affine

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        return self.integers.shape

    def data(self) -> npt.NDArray[np.bool_]:
        """The mask as an array of booleans."""
        found: npt.NDArray[np.bool_] = self.integers.data() >= 0
        return found

    def broadcast(self, shape: tuple[int, ...]) -> HalfSpace:
        """The same mask over *shape*, to which `shape` has to broadcast."""
        return HalfSpace(self.integers.broadcast(shape))

    def at(self, key: tuple[Any, ...]) -> IndexBox | HalfSpace | None:
        """The mask at *key*, by numpy's basic indexing; None for one place, and for an empty slice."""
        found = self.integers.at(key)
        return where_not_negative(found) if found is not None and found.shape else None

    def transposed(self, order: tuple[int, ...]) -> HalfSpace:
        """The axes in another *order*."""
        return HalfSpace(self.integers.transposed(order))


MaskForm: TypeAlias = "IndexBox | HalfSpace"


def where_not_negative(integers: Affine) -> MaskForm:
    """The places where *integers* are 0 or more."""
    shape, axes = integers.shape, integers.axes
    if integers.low >= 0 or integers.high < 0:
        return IndexBox.everywhere(shape, integers.low >= 0)
    if len(axes) > 1:
        return HalfSpace(integers)
    base, step, n = integers.base, integers.steps[axes[0]], shape[axes[0]]
    return _along(shape, axes[0], (-(base // step), n) if step > 0 else (0, base // -step + 1))


def compared(function: Callable[[Any, Any], Any], difference: Affine) -> MaskForm | None:
    """The mask of *function*, a comparison, of *difference* and 0; None for neither a box nor a half space."""
    if function in (eq, ne):
        return _equal(difference, function is eq)
    sign, offset = {lt: (-1, -1), le: (-1, 0), gt: (1, -1), ge: (1, 0)}[function]
    return where_not_negative(difference.times(sign).plus(Affine.constant(offset, difference.shape)))


def _equal(difference: Affine, wanted: bool) -> IndexBox | None:
    shape, axes = difference.shape, difference.axes
    if difference.low > 0 or difference.high < 0 or not axes:
        return IndexBox.everywhere(shape, (not axes and difference.base == 0) == wanted)
    if len(axes) > 1:
        return None
    at, rest = divmod(-difference.base, difference.steps[axes[0]])
    if rest:
        return IndexBox.everywhere(shape, not wanted)
    found = _along(shape, axes[0], (at, at + 1))
    return found if wanted else found.inverted()


def _along(shape: tuple[int, ...], axis: int, interval: Interval) -> IndexBox:
    return IndexBox(shape, tuple(interval if number == axis else (0, n) for number, n in enumerate(shape)))
