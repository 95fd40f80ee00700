"""Ops on stacks: many values of one shape at once, with the same arithmetic, and the same bytes, as one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.backends import current
from kb_dataexec.ops.gemm import product
from kb_dataexec.ops.math import Math
from kb_messages import GemmAttributes


def math_on_stacks(math: Math, stacks: Sequence[Array]) -> Array:
    """`math.evaluate` of each n-th value of *stacks*, (n, rows, cols) each; at least one stack."""
    with np.errstate(all="ignore"):
        arguments = math.arguments(stacks)
        if math.function.reduces:
            return cast(_reduced(math, arguments[0]), math.out.dtype)
        return cast(current().apply(math.attributes.op, arguments, None), math.out.dtype)


def _reduced(math: Math, stack: Array) -> Array:
    """A reduction of all values as one of a single matrix, in which they stand below or beside one another."""
    count, rows, cols = stack.shape
    op, axis = math.attributes.op, math.attributes.axis
    if axis == 1:
        return current().apply(op, [stack.reshape(count * rows, cols)], axis).reshape(count, rows, 1)
    beside = np.ascontiguousarray(stack.transpose(1, 0, 2)).reshape(rows, count * cols)
    return current().apply(op, [beside], axis).reshape(count, 1, cols)


def gemm_on_stacks(attributes: GemmAttributes, stacks: Sequence[Array]) -> Array:
    """A @ B, or ACC + A @ B where there is a third stack; every product is a BLAS call of its own, as in tile mode."""
    a = stacks[0].swapaxes(1, 2) if attributes.transpose_a else stacks[0]
    b = stacks[1].swapaxes(1, 2) if attributes.transpose_b else stacks[1]
    out = product(a, b)
    if len(stacks) > 2:
        out += stacks[2]
    return out
