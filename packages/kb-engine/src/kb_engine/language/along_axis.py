"""The functions of `tl` that go along an axis: reductions, and scans."""

from __future__ import annotations

from kb_engine.language.special_functions import SpecialFunctions
from kb_engine.program.handles import Handle, LoadedTensor
from kb_messages import KernelError


class AxisFunctions(SpecialFunctions):
    """Reductions, whose axis stays with length 1, and scans, whose result has the shape of the argument.

    A sum or product of integers below 32 bits is i32. Raises KernelError for an axis that the argument does not have.
    """

    def sum(self, x: Handle, axis: int) -> LoadedTensor:
        """The sum over *axis*."""
        return self._along("sum", x, axis)

    def prod(self, x: Handle, axis: int) -> LoadedTensor:
        """The product over *axis*."""
        return self._along("prod", x, axis)

    def max(self, x: Handle, axis: int) -> LoadedTensor:
        """The largest element over *axis*."""
        return self._along("max", x, axis)

    def min(self, x: Handle, axis: int) -> LoadedTensor:
        """The smallest element over *axis*."""
        return self._along("min", x, axis)

    def argmax(self, x: Handle, axis: int) -> LoadedTensor:
        """The index, i32, of the largest element over *axis*; of equals the lowest."""
        return self._along("argmax", x, axis)

    def argmin(self, x: Handle, axis: int) -> LoadedTensor:
        """The index, i32, of the smallest element over *axis*; of equals the lowest."""
        return self._along("argmin", x, axis)

    def reduce_and(self, x: Handle, axis: int) -> LoadedTensor:
        """The bits that all integers over *axis* have."""
        return self._along("reduce_and", x, axis)

    def reduce_or(self, x: Handle, axis: int) -> LoadedTensor:
        """The bits that some integer over *axis* has."""
        return self._along("reduce_or", x, axis)

    def xor_sum(self, x: Handle, axis: int) -> LoadedTensor:
        """The bits that an odd number of integers over *axis* has."""
        return self._along("reduce_xor", x, axis)

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

    def _along(self, op: str, x: Handle, axis: int, reverse: bool = False) -> LoadedTensor:
        dimensions = len(getattr(x, "shape", (1, 1)))
        if not -dimensions <= axis < dimensions:
            raise KernelError(self._port.line(), f"tl.{op} over axis {axis!r}", f"an axis from 0 to {dimensions - 1}")
        return self._call(op, [x], axis % dimensions, reverse=reverse)
