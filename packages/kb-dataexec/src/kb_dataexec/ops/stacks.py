"""Ops on stacks: many values of one shape at once. The bytes are equal to the bytes of one op at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.backends import current
from kb_dataexec.ops.gemm import product
from kb_dataexec.ops.math import DecodedMath
from kb_messages import GemmAttributes


def math_on_stacks(math: DecodedMath, stacks: Sequence[Array]) -> Array:
    """Returns `math.evaluate` of element i of all *stacks*, for every i.

    At least one stack, of shape (n, rows, cols).
    """
    with np.errstate(all="ignore"):
        arguments = math.arguments(stacks)
        if math.function.is_layout:
            return cast(math.along(arguments), math.out.dtype)
        if math.function.has_axis or math.function.spreads:
            return cast(_along_axis(math, arguments[0]), math.out.dtype)
        return cast(current().apply(math.attributes.op, arguments, None), math.out.dtype)


def _along_axis(math: DecodedMath, stack: Array) -> Array:
    """The reduction or scan of each value of *stack*, computed on one matrix of all values."""
    count, rows, cols = stack.shape
    if math.groups is not None:
        return math.along([stack])
    if math.attributes.axis == 1:
        return math.along([stack.reshape(count * rows, cols)]).reshape(count, rows, -1)
    beside = np.ascontiguousarray(stack.transpose(1, 0, 2)).reshape(rows, count * cols)
    return np.ascontiguousarray(math.along([beside]).reshape(-1, count, cols).swapaxes(0, 1))


def gemm_on_stacks(attributes: GemmAttributes, stacks: Sequence[Array]) -> Array:
    """Returns A @ B, or ACC + A @ B with a third stack. Each product is a BLAS call of its own, as in tile mode."""
    a = stacks[0].swapaxes(1, 2) if attributes.transpose_a else stacks[0]
    b = stacks[1].swapaxes(1, 2) if attributes.transpose_b else stacks[1]
    out = product(a, b)
    if len(stacks) > 2:
        out += stacks[2]
    return out
