"""Reductions and scans with a function that the kernel defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from kb_engine.language.call_rules import steps_of
from kb_engine.language.layout_functions import LayoutFunctions
from kb_engine.program.values.affine import Affine
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_messages import KernelError

Combine: TypeAlias = Callable[..., Any]
Values: TypeAlias = "list[LoadedTensor]"


class CombiningFunctions(LayoutFunctions):
    """Reductions and scans along an axis with *combine*, a function of the kernel that takes two sets of values.

    *combine* is called with values that are at most half as long as the axis: first the values of the lower places,
    then the values of the higher places. It uses `tl` as the kernel does, and returns one result, or a tuple of as many
    results as there are values. It has to be associative, and need not be commutative. Results have the dtypes of the
    values. All ops that it calls are ops of the vector program, at the lines of the function.

    Raises KernelError for values of different shapes, for an axis that they do not have, and for another number of
    results or another shape of one.
    """

    def reduce(
        self,
        x: Handle | HostValue | Sequence[Handle | HostValue],
        axis: int | None,
        combine: Combine,
        keep_dims: bool = True,
    ) -> Any:
        """The elements of *x*, a value or a tuple of values, combined over *axis* by *combine*; None is for all axes.

        The result is a value or a tuple, the same as *x*. The axis stays with length 1, unless *keep_dims* is false.
        """
        values, is_tuple = self._blocks(x, "reduce")
        shape = values[0].shape
        if axis is None:
            values, at = [each.reshape(-1) for each in values], 0
        else:
            at = self._axis_of(values[0], axis, "reduce")
        found = self._reduced_by(combine, values, at)
        kept = (1,) * len(shape) if axis is None else (*shape[:at], 1, *shape[at + 1 :])
        wanted = kept if keep_dims else () if axis is None else (*shape[:at], *shape[at + 1 :])
        results = tuple(each if each.shape == wanted else each.reshape(wanted) for each in found)
        return results if is_tuple else results[0]

    def associative_scan(
        self, x: Handle | HostValue | Sequence[Handle | HostValue], axis: int, combine: Combine, reverse: bool = False
    ) -> Any:
        """All elements up to each one along *axis*, combined by *combine*; with *reverse*, from the last to each one.

        *x* is a value or a tuple of values, and so is the result. With *reverse*, *combine* gets the values of the
        higher places first.
        """
        values, is_tuple = self._blocks(x, "associative_scan")
        at = self._axis_of(values[0], axis, "associative_scan")
        n = values[0].shape[at]
        values = [self.flip(each, at) if reverse else each for each in values]
        longer = [self._lengthened(each, at, 1 << (n - 1).bit_length()) for each in values]
        found = [self._some(each, at, 0, 1, n) for each in self._scanned_by(combine, longer, at)]
        results = tuple(self.flip(each, at) if reverse else each for each in found)
        return results if is_tuple else results[0]

    def _blocks(self, x: object, call: str) -> tuple[Values, bool]:
        """The values of *x*, and whether *x* is a tuple."""
        is_tuple = isinstance(x, (tuple, list))
        values = [self._value(each, call) for each in (x if isinstance(x, (tuple, list)) else (x,))]
        shapes = {each.shape for each in values}
        if len(shapes) != 1:
            listed = ", ".join(" x ".join(map(str, each.shape)) for each in values) or "no values"
            raise KernelError(self._port.line(), f"tl.{call} of {listed}", "values of one shape")
        return [each.reshape(each.shape) for each in values], is_tuple

    def _reduced_by(self, combine: Combine, values: Values, axis: int) -> Values:
        """*values* combined over *axis*. The first elements, the largest power of two of them, are combined in pairs;
        the result is combined with that of the rest."""
        n = values[0].shape[axis]
        length = 1 << (n.bit_length() - 1)
        rest = None if length == n else [self._some(each, axis, length, 1, n - length) for each in values]
        found = [self._some(each, axis, 0, 1, length) for each in values]
        while found[0].shape[axis] > 1:
            found = self._joined(combine, *self._halves(found, axis))
        return found if rest is None else self._joined(combine, found, self._reduced_by(combine, rest, axis))

    def _scanned_by(self, combine: Combine, values: Values, axis: int) -> Values:
        """The scan of *values*, a power of two of elements. The scan of pairs gives every second element."""
        n = values[0].shape[axis]
        if n == 1:
            return values
        evens, odds = self._halves(values, axis)
        at_odd = self._scanned_by(combine, self._joined(combine, evens, odds), axis)
        if n == 2:
            return [self._in_turn(one, two, axis) for one, two in zip(evens, at_odd, strict=True)]
        before = [self._some(each, axis, 0, 1, n // 2 - 1) for each in at_odd]
        later = self._joined(combine, before, [self._some(each, axis, 1, 1, n // 2 - 1) for each in evens])
        firsts = [self._some(each, axis, 0, 1, 1) for each in evens]
        at_even = [self._behind(one, two, axis) for one, two in zip(firsts, later, strict=True)]
        return [self._in_turn(one, two, axis) for one, two in zip(at_even, at_odd, strict=True)]

    def _joined(self, combine: Combine, first: Values, second: Values) -> Values:
        """The results of *combine* for *first* and *second*, in their dtypes."""
        found = combine(*first, *second)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(results) != len(first):
            got = f"a combine function of {len(first)} values that returns {len(results)}"
            raise KernelError(self._port.line(), got, "as many results as values")
        return [self._as(each, like) for each, like in zip(results, first, strict=True)]

    def _as(self, result: object, like: LoadedTensor) -> LoadedTensor:
        if isinstance(result, (int, float)):
            return self.full(like.shape, result, like.dtype)
        value = self._value(result, "reduce")
        if value.shape != like.shape:
            sizes = [" x ".join(map(str, each.shape)) for each in (value, like)]
            raise KernelError(self._port.line(), f"a combine function whose result is {sizes[0]}", sizes[1])
        return value.reshape(value.shape) if value.dtype is like.dtype else self.convert(value, like.dtype)

    def _halves(self, values: Values, axis: int) -> tuple[Values, Values]:
        """The elements at even and at odd places along *axis*."""
        half = values[0].shape[axis] // 2
        evens, odds = ([self._some(each, axis, first, 2, half) for each in values] for first in (0, 1))
        return evens, odds

    def _some(self, value: LoadedTensor, axis: int, first: int, step: int, count: int) -> LoadedTensor:
        """*count* elements along *axis*, from *first* on and *step* apart."""
        if count == value.shape[axis]:
            return value
        steps = steps_of(value.shape)
        shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
        strides = tuple(each * step if number == axis else each for number, each in enumerate(steps))
        return self._ordered("rearrange", [value], shape, strides, shape, first * steps[axis])

    def _in_turn(self, one: LoadedTensor, two: LoadedTensor, axis: int) -> LoadedTensor:
        """The elements of *one* and *two* in turn along *axis*."""
        shape, steps = one.shape, steps_of(one.shape)
        size = steps[0] * shape[0]
        lengths = (*shape[: axis + 1], 2, *shape[axis + 1 :])
        found = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        return self._ordered("combine", [one, two], lengths, (*steps[: axis + 1], size, *steps[axis + 1 :]), found)

    def _behind(self, first: LoadedTensor, rest: LoadedTensor, axis: int) -> LoadedTensor:
        """*first*, one element along *axis*, followed by the elements of *rest*."""
        n, rank = rest.shape[axis] + 1, len(rest.shape)
        shape, steps = (*rest.shape[:axis], n, *rest.shape[axis + 1 :]), steps_of(rest.shape)
        moved = self._ordered("combine", [first, rest], shape, steps, shape, prod(first.shape) - steps[axis])
        index = self._index(HostValue.of(Affine.along((n,), 0), self._port.line), self._port.line())
        along = index.reshape((n, *(1 for _ in range(rank - axis - 1))))
        return self._call("where", [self._call("eq", [along, 0]), first, moved])

    def _lengthened(self, value: LoadedTensor, axis: int, count: int) -> LoadedTensor:
        """*value* extended along *axis* to *count* elements, less than twice as many, by any elements of *value*."""
        if count == value.shape[axis]:
            return value
        shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
        return self._ordered("combine", [value, value], shape, steps_of(value.shape), shape)
