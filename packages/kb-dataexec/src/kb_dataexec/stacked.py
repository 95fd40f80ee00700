"""Ops on stacks: many values of one shape at once, with the same arithmetic, and the same bytes, as one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.dtypes import Array, cast, numpy_dtype
from kb_dataexec.ops.gemm import product
from kb_dataexec.ops.math import Math
from kb_messages.dtypes import DType
from kb_messages.oplog import GemmAttributes


def math_on_stacks(math: Math, stacks: Sequence[Array]) -> Array:
    """`math.evaluate` of each n-th value of *stacks*, (n, rows, cols) each; at least one stack."""
    as_is, working = math.function.as_is, math.working
    with np.errstate(all="ignore"):
        arguments = [
            np.ascontiguousarray(stack if at < as_is else cast(stack, working)) for at, stack in enumerate(stacks)
        ]
        if math.function.reduces:
            return cast(_reduced(math, arguments[0]), math.out.dtype)
        arguments += [np.full((1, 1), scalar, np.float64).astype(numpy_dtype(working)) for scalar in math.scalars]
        return cast(math.function.apply(*arguments), math.out.dtype)


def _reduced(math: Math, stack: Array) -> Array:
    """A reduction of all values as one of a single matrix, in which they stand below or beside one another."""
    count, rows, cols = stack.shape
    if math.axis == 1:
        return math.function.apply(stack.reshape(count * rows, cols), axis=1).reshape(count, rows, 1)
    beside = np.ascontiguousarray(stack.transpose(1, 0, 2)).reshape(rows, count * cols)
    return math.function.apply(beside, axis=0).reshape(count, 1, cols)


def gemm_on_stacks(attributes: GemmAttributes, stacks: Sequence[Array]) -> Array:
    """A @ B, or ACC + A @ B where there is a third stack; every product is a BLAS call of its own, as in tile mode."""
    a = stacks[0].swapaxes(1, 2) if attributes.transpose_a else stacks[0]
    b = stacks[1].swapaxes(1, 2) if attributes.transpose_b else stacks[1]
    if a.dtype.kind in "iub":
        out = np.stack([product(left, right) for left, right in zip(a, b, strict=True)])
    else:
        out = np.matmul(cast(a, DType.F32), cast(b, DType.F32))
    if len(stacks) > 2:
        out += stacks[2]
    return out
