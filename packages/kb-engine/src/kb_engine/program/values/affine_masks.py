"""Masks as boxes and as half spaces of affine integers. Operations take the same time for any size."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_engine.program.values.affine import Affine

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
        """The mask at *key*, by numpy's basic indexing; None for slices with steps, for one place, and for an empty
        slice."""
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
