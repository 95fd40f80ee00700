"""OpReference: the float64 result of one op from the values that it read, and the error of its own rounding."""

from __future__ import annotations

import math as mathematics
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from kb_dataexec.arrays.dtypes import Array, cast, numpy_dtype
from kb_dataexec.arrays.row_groups import RowGroups
from kb_dataexec.backends import using
from kb_dataexec.backends.numpy_backend import NumpyBackend
from kb_dataexec.ops.gemm import DecodedGemm
from kb_dataexec.ops.math import DecodedMath
from kb_dataexec.verify.tolerance import as_stored, gemm_tolerance
from kb_messages import DType

_ROUNDOFF: Final = 2.0**-24
_ROUNDINGS: Final = 16
"""The most roundings of f32 of a function. Source: assumed; libraries stay within 4 a step, and gelu and silu have a
few steps."""
_EXPONENT: Final = 120
"""Partial products of numbers whose binary exponents add up to no more stay in f32's range, without sign."""
_UNDERFLOW: Final = 2.0**-118
"""The error where a step of a function leaves f32's range. Example: x / (1 + exp(-x)) is -2e-37 for x = -89, and f32
gives 0."""


class OpReference(NamedTuple):
    """The expected output of one op, and the error that each element may have."""

    expected: Array
    allowed: Array


def of_move(value: Array, dtype: DType) -> OpReference:
    """The reference of a move of *value* to *dtype*: a float is rounded once, everything else is exact."""
    if not dtype.is_float or numpy_dtype(dtype) == value.dtype:
        return _exact(cast(value, dtype))
    expected = as_stored(value.astype(np.float64), dtype)
    return OpReference(expected, _stored(expected, dtype))


def of_gemm(gemm: DecodedGemm, values: Sequence[Array]) -> OpReference:
    """The reference of A @ B (+ accumulator): within `gemm_tolerance` for floats, exact modulo 2^32 for integers.

    *values* are A, B and, if the op accumulates, the accumulator.
    """
    a = values[0].T if gemm.attributes.transpose_a else values[0]
    b = values[1].T if gemm.attributes.transpose_b else values[1]
    if not gemm.out.dtype.is_float:
        total = a.astype(np.int64) @ b.astype(np.int64)
        return _exact((total + values[2] if len(values) > 2 else total).astype(np.int32))
    a, b = a.astype(np.float64), b.astype(np.float64)
    expected, size = a @ b, np.abs(a) @ np.abs(b)
    if len(values) > 2:
        expected, size = expected + values[2], size + np.abs(values[2].astype(np.float64))
    return OpReference(as_stored(expected, gemm.out.dtype), gemm_tolerance(expected, size, a.shape[1], gemm.out.dtype))


def of_math(math: DecodedMath, values: Sequence[Array]) -> OpReference:
    """The reference of a function: computed in f64 from its arguments after their cast to f32; exact for integers."""
    op, out = math.attributes.op, math.out.dtype
    if math.groups is not None:
        return _of_groups(math, math.groups, values[0])
    arguments = math.arguments(values)
    if op == "copy":
        return of_move(np.broadcast_to(arguments[0], math.out.shape), out)
    if not math.working.is_float:
        return _exact(_filled(cast(_applied(math, arguments), out), math))
    wide = [value if at < math.function.as_is else value.astype(np.float64) for at, value in enumerate(arguments)]
    exact = _filled(_applied(math, wide), math)
    if exact.dtype.kind != "f" or out is DType.BOOL or (math.function.exact and not out.is_float):
        return _exact(cast(exact, out))
    error = np.zeros(exact.shape)
    if not math.function.exact:
        error = np.broadcast_to(_scale(math, wide, exact) * _ROUNDOFF + _UNDERFLOW, exact.shape)
    if not out.is_float:
        beyond = np.abs(exact) >= 2.0 ** (8 * out.nbytes - 1)
        return OpReference(cast(exact, out), np.where(beyond, np.inf, error + 1))
    expected = as_stored(exact, out)
    return OpReference(expected, error + _stored(expected, out))


def _of_groups(math: DecodedMath, groups: RowGroups, value: Array) -> OpReference:
    """The reference of a function of groups of rows, from the reference of a function whose rows are one group."""
    if math.function.spreads:
        return of_move(groups.spread(value), math.out.dtype)
    x = groups.together(value)
    rows, nbytes = 1 if math.function.reduces else len(x), x.shape[1] * math.out.dtype.nbytes
    alone = math._replace(
        attributes=replace(math.attributes, group=None),
        out=math.out._replace(rows=rows, row_nbytes=nbytes, stride=nbytes),
    )
    expected, allowed = of_math(alone, [x])
    return OpReference(*(groups.apart(each, math.out.shape) for each in (expected, allowed)))


def _applied(math: DecodedMath, arguments: Sequence[Array]) -> Array:
    """The function of *arguments*, in their type, by numpy."""
    with using(NumpyBackend()):
        return math.along(arguments)


def _scale(math: DecodedMath, arguments: Sequence[Array], exact: Array) -> Array:
    """The error of f32 in units of 2^-24: relative to the result, and to the terms that may cancel.

    The error of `prod` and `cumprod` has no bound where a partial product leaves the range of f32.
    """
    op, axis = math.attributes.op, math.attributes.axis
    scale: Array = _ROUNDINGS * np.abs(exact)
    if op == "sum":
        length = arguments[0].shape[axis or 0]
        scale += mathematics.sqrt(length) * np.abs(arguments[0]).sum(axis=axis, keepdims=True)
    elif op == "fma":
        scale += np.abs(arguments[0] * arguments[1])
    elif op == "cumsum":
        scale += arguments[0].shape[axis or 0] * _applied(math, [np.abs(arguments[0])])
    elif op in ("prod", "cumprod"):
        sizes = np.log2(np.abs(np.where(arguments[0] == 0, 1, arguments[0])))
        beyond = np.abs(sizes).sum(axis=axis, keepdims=True) > _EXPONENT
        scale = np.where(beyond, np.inf, scale + arguments[0].shape[axis or 0] * np.abs(exact))
    elif op in ("sin", "cos", "lgamma", "j0", "j1", "y0", "y1"):
        scale += 1
    elif op == "gelu":
        scale += _ROUNDINGS * np.abs(arguments[0])
    return scale


def _stored(expected: Array, dtype: DType) -> Array:
    """The error of one rounding to f32 and then one to *dtype*."""
    allowed: Array = (dtype.info.unit_roundoff + _ROUNDOFF) * np.abs(expected) + dtype.info.smallest_subnormal
    return allowed


def _filled(result: Array, math: DecodedMath) -> Array:
    filled: Array = np.broadcast_to(result, math.out.shape)
    return filled


def _exact(expected: Array) -> OpReference:
    return OpReference(expected, np.zeros(expected.shape))
