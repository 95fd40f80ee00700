"""The functions of `tl` that go along an axis: reductions, and scans."""

from __future__ import annotations

from math import prod
from operator import index as as_integer
from typing import Final, Literal, overload

from kb_engine.language.functions import SpecialFunctions
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_messages import DType, KernelError

_SEARCHES: Final = {"max": "argmax", "min": "argmin"}
_ROUNDS: Final = ("sum", "prod")
"""Reductions whose results are rounded to their dtype: once, for any number of axes."""


class AxisFunctions(SpecialFunctions):
    """Reductions, whose axis stays with length 1, and scans, whose result has the shape of the argument.

    A reduction without an axis goes over all elements. With `keep_dims=False` the reduced axes are dropped, in no time.

    A sum or product of integers below 32 bits is i32. Raises KernelError for an axis that the argument does not have.
    """

    def sum(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The sum over *axis*."""
        return self._reduced("sum", x, axis, keep_dims)

    def prod(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The product over *axis*."""
        return self._reduced("prod", x, axis, keep_dims)

    @overload
    def max(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: Literal[False] = False
    ) -> LoadedTensor: ...

    @overload
    def max(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, *, return_indices: Literal[True]
    ) -> tuple[LoadedTensor, LoadedTensor]: ...

    def max(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: bool = False
    ) -> LoadedTensor | tuple[LoadedTensor, LoadedTensor]:
        """The largest element over *axis*; with *return_indices* also its index, the result of `argmax`."""
        return self._extreme("max", x, axis, keep_dims, return_indices)

    @overload
    def min(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: Literal[False] = False
    ) -> LoadedTensor: ...

    @overload
    def min(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, *, return_indices: Literal[True]
    ) -> tuple[LoadedTensor, LoadedTensor]: ...

    def min(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: bool = False
    ) -> LoadedTensor | tuple[LoadedTensor, LoadedTensor]:
        """The smallest element over *axis*; with *return_indices* also its index, the result of `argmin`."""
        return self._extreme("min", x, axis, keep_dims, return_indices)

    def argmax(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The index, i32, of the largest element over *axis*; the lowest index of equal elements. Without an axis, the
        index counts in `ravel` order."""
        return self._reduced("argmax", x, axis, keep_dims)

    def argmin(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The index, i32, of the smallest element over *axis*; the lowest index of equal elements. Without an axis, the
        index counts in `ravel` order."""
        return self._reduced("argmin", x, axis, keep_dims)

    def reduce_and(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The bitwise and of all integers over *axis*."""
        return self._reduced("reduce_and", x, axis, keep_dims)

    def reduce_or(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The bitwise or of all integers over *axis*."""
        return self._reduced("reduce_or", x, axis, keep_dims)

    def xor_sum(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The bitwise exclusive or of all integers over *axis*."""
        return self._reduced("reduce_xor", x, axis, keep_dims)

    def cumsum(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The sums of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cumsum", x, axis, reverse)

    def cumprod(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The products of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cumprod", x, axis, reverse)

    def cummax(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The largest of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cummax", x, axis, reverse)

    def cummin(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The smallest of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cummin", x, axis, reverse)

    def _extreme(
        self, op: str, x: Handle, axis: int | None, keep_dims: bool, return_indices: bool
    ) -> LoadedTensor | tuple[LoadedTensor, LoadedTensor]:
        found = self._reduced(op, x, axis, keep_dims)
        return (found, self._reduced(_SEARCHES[op], x, axis, keep_dims)) if return_indices else found

    def _reduced(self, op: str, x: Handle, axis: int | None, keep_dims: bool) -> LoadedTensor:
        """The reduction of *x* over *axis*, or over all axes: along rows first, and then over the rows."""
        shape: tuple[int, ...] = getattr(x, "shape", (1, 1))
        if axis is not None:
            found = self._along(op, x, axis)
            dropped = axis % len(shape)
            return found if keep_dims else found.reshape(shape[:dropped] + shape[dropped + 1 :])
        if op in _SEARCHES.values() or not shape:
            found = self._along(op, x.reshape((-1,)), -1)
        elif prod(shape[:-1]) > 1:
            dtype: DType | None = getattr(x, "dtype", None)
            rounds = op in _ROUNDS and dtype is not None and dtype.is_float
            of_rows = self._along(op, x, -1, dtype=DType.F32 if rounds else None)
            found = self._along(op, of_rows.reshape((-1, 1)), 0, dtype=dtype if rounds else None)
        else:
            found = self._along(op, x, -1)
        wanted = (1,) * len(shape) if keep_dims else ()
        return found if found.shape == wanted else found.reshape(wanted)

    def _along(self, op: str, x: Handle, axis: int, reverse: bool = False, dtype: DType | None = None) -> LoadedTensor:
        return self._call(op, [x], self._axis_of(x, axis, op, "over"), dtype, bool(reverse))

    def _axis_of(self, x: Handle, axis: int, call: str, way: str = "along") -> int:
        """The number, from 0 on, of *axis* of *x*. Errors name tl.*call* and *way*: `along` or `over`."""
        n_axes = len(getattr(x, "shape", (1, 1)))
        try:
            at = as_integer(axis)
        except TypeError:
            at = n_axes
        if not -n_axes <= at < n_axes:
            raise KernelError(self._port.line(), f"tl.{call} {way} axis {axis!r}", f"an axis from 0 to {n_axes - 1}")
        return at % n_axes
