"""The functions of MATH records, in numpy. README.md says what each function means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array


class Function(NamedTuple):
    """One function. `apply` takes `arity` 2-D arrays of one type, and the keyword `axis` if the function `reduces`.

    The first `as_is` arguments keep their own types and have no say in the type of the computation.
    """

    arity: int
    apply: Callable[..., Array]
    float_only: bool = False
    reduces: bool = False
    as_is: int = 0
    int_only: bool = False


def _sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out


def _gelu(x: Array) -> Array:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Source: Hendrycks and Gimpel, "Gaussian error linear units" (2016), section 2, the approximation by tanh.
    """
    scale = np.float32(0.7978845608028654)
    out: Array = np.float32(0.5) * x * (1 + np.tanh(scale * (x + np.float32(0.044715) * (x * x * x))))
    return out


def _relu(x: Array) -> Array:
    out: Array = np.maximum(x, x.dtype.type(0))
    return out


def _sum(x: Array, axis: int) -> Array:
    """The sum over *axis*, which is made contiguous first. numpy adds pairwise along a contiguous axis only."""
    turned = np.ascontiguousarray(x.T if axis == 0 else x)
    return np.expand_dims(turned.sum(axis=1), axis)


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


FUNCTIONS: Final[dict[str, Function]] = {
    "copy": Function(1, np.array, as_is=1),
    "neg": Function(1, np.negative),
    "abs": Function(1, np.abs),
    "exp": Function(1, np.exp, float_only=True),
    "log": Function(1, np.log, float_only=True),
    "sqrt": Function(1, np.sqrt, float_only=True),
    "rsqrt": Function(1, lambda x: 1 / np.sqrt(x), float_only=True),
    "sigmoid": Function(1, _sigmoid, float_only=True),
    "tanh": Function(1, np.tanh, float_only=True),
    "relu": Function(1, _relu),
    "gelu": Function(1, _gelu, float_only=True),
    "silu": Function(1, lambda x: x * _sigmoid(x), float_only=True),
    "not": Function(1, np.logical_not),
    "add": Function(2, np.add),
    "sub": Function(2, np.subtract),
    "mul": Function(2, np.multiply),
    "div": Function(2, np.divide, float_only=True),
    "maximum": Function(2, np.maximum),
    "minimum": Function(2, np.minimum),
    "pow": Function(2, np.power, float_only=True),
    "floordiv": Function(2, np.floor_divide, int_only=True),
    "mod": Function(2, np.remainder, int_only=True),
    "lshift": Function(2, np.left_shift, int_only=True),
    "rshift": Function(2, np.right_shift, int_only=True),
    "bit_and": Function(2, np.bitwise_and, int_only=True),
    "bit_or": Function(2, np.bitwise_or, int_only=True),
    "bit_xor": Function(2, np.bitwise_xor, int_only=True),
    "bit_not": Function(1, np.invert, int_only=True),
    "eq": Function(2, np.equal),
    "ne": Function(2, np.not_equal),
    "lt": Function(2, np.less),
    "le": Function(2, np.less_equal),
    "gt": Function(2, np.greater),
    "ge": Function(2, np.greater_equal),
    "and": Function(2, np.logical_and),
    "or": Function(2, np.logical_or),
    "where": Function(3, _where, as_is=1),
    "fma": Function(3, lambda a, b, c: a * b + c),
    "sum": Function(1, _sum, reduces=True),
    "max": Function(1, lambda x, axis: x.max(axis=axis, keepdims=True), reduces=True),
    "min": Function(1, lambda x, axis: x.min(axis=axis, keepdims=True), reduces=True),
}
"""The functions that a MATH record can ask for, by `MathAttributes.op`."""
