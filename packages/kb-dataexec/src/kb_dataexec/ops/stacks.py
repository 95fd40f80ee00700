"""Ops on stacks: many values of one shape at once. The bytes are those of one op at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.backends import current
from kb_dataexec.ops.gemm import product
from kb_dataexec.ops.math import DecodedMath
from kb_messages import GemmAttributes


def math_on_stacks(math: DecodedMath, stacks: Sequence[Array]) -> Array:
    """`math.evaluate` of element i of all *stacks*, for every i. At least one stack, of shape (n, rows, cols)."""
    with np.errstate(all="ignore"):
        arguments = math.arguments(stacks)
        if math.function.reduces:
            return cast(_reduced(math, arguments[0]), math.out.dtype)
        return cast(current().apply(math.attributes.op, arguments, None), math.out.dtype)


def _reduced(math: DecodedMath, stack: Array) -> Array:
    """The reduction of each value of *stack*, as one reduction of a matrix of all values."""
    count, rows, cols = stack.shape
    op, axis = math.attributes.op, math.attributes.axis
    if axis == 1:
        return current().apply(op, [stack.reshape(count * rows, cols)], axis).reshape(count, rows, 1)
    beside = np.ascontiguousarray(stack.transpose(1, 0, 2)).reshape(rows, count * cols)
    return current().apply(op, [beside], axis).reshape(count, 1, cols)


def gemm_on_stacks(attributes: GemmAttributes, stacks: Sequence[Array]) -> Array:
    """A @ B, or ACC + A @ B with a third stack. Each product is a BLAS call of its own, as in tile mode."""
    a = stacks[0].swapaxes(1, 2) if attributes.transpose_a else stacks[0]
    b = stacks[1].swapaxes(1, 2) if attributes.transpose_b else stacks[1]
    out = product(a, b)
    if len(stacks) > 2:
        out += stacks[2]
    return out
