"""The functions of MATH records, in numpy. README.md specifies each function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays import layouts, special
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.erf import erf
from kb_dataexec.arrays.integer_functions import (
    high_product,
    leading_zeros,
    lowest_one,
    ones,
    reversed_bits,
    truncated_quotient,
    truncated_remainder,
)
from kb_dataexec.arrays.philox import philox


class Function(NamedTuple):
    """One function. `apply` takes `arity` 2-D arrays of one type, and the keyword `axis` if the function `has_axis`.

    The first `as_is` arguments keep their own types and do not decide the type of the computation. A function that
    `generates` gets, behind its scalars, the row and the column of each element of the result. A function that
    `spreads` repeats rows, in `kb_dataexec.ops`. The result of an `exact` function is not rounded. A function that
    `is_layout` gets the attributes of the op, and the shape and type of the result, by name.
    """

    arity: int
    apply: Callable[..., Array]
    float_only: bool = False
    reduces: bool = False
    as_is: int = 0
    int_only: bool = False
    scans: bool = False
    generates: bool = False
    exact: bool = False
    spreads: bool = False
    picks: bool = False
    lays_out: bool = False
    retypes: bool = False

    @property
    def has_axis(self) -> bool:
        """Whether `apply` takes an axis."""
        return self.reduces or self.scans or self.picks

    @property
    def is_layout(self) -> bool:
        """Whether the function chooses or moves elements or bytes, and computes nothing."""
        return self.picks or self.lays_out or self.retypes


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


def _in_order(x: Array, axis: int) -> Array:
    return np.sort(x, axis=axis, kind="stable")


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


def _exchanged(old: Array, expected: Array, new: Array) -> Array:
    """*new* where the bits of *old* and *expected* are equal, else *old*. All count as elements of the type of *old*.

    Memory compares bits, so a NaN equals a NaN of the same bits, and -0.0 differs from 0.0.
    """
    bits = f"u{old.dtype.itemsize}"
    given = np.ascontiguousarray(expected.astype(old.dtype))
    return np.where(old.view(bits) == given.view(bits), new.astype(old.dtype), old)


def _reduction(function: np.ufunc) -> Callable[..., Array]:
    return lambda x, axis: function.reduce(x, axis=axis, keepdims=True)


def _first_number(function: np.ufunc) -> Callable[..., Array]:
    """The lowest index along an axis of the extreme of all elements but NaN; 0 if all are NaN."""

    def first(x: Array, axis: int) -> Array:
        found: Array = np.argmax(x == function.reduce(x, axis=axis, keepdims=True), axis=axis, keepdims=True)
        return found

    return first


def _scan(function: np.ufunc) -> Callable[..., Array]:
    """The function of all elements up to each element along an axis, one after the other."""
    return lambda x, axis: function.accumulate(x, axis=axis)


FUNCTIONS: Final[dict[str, Function]] = {
    "fill": Function(
        1, lambda x, rows, cols: np.broadcast_to(x, np.broadcast_shapes(rows.shape, cols.shape)), generates=True
    ),
    "index": Function(
        3, lambda base, down, along, rows, cols: base + down * rows + along * cols, int_only=True, generates=True
    ),
    "copy": Function(1, np.array, as_is=1),
    "spread": Function(1, np.array, as_is=1, exact=True, spreads=True),
    "sign": Function(1, np.sign, exact=True),
    "neg": Function(1, np.negative),
    "abs": Function(1, np.abs),
    "exp": Function(1, np.exp, float_only=True),
    "exp2": Function(1, np.exp2, float_only=True),
    "expm1": Function(1, np.expm1, float_only=True),
    "log": Function(1, np.log, float_only=True),
    "log2": Function(1, np.log2, float_only=True),
    "log1p": Function(1, np.log1p, float_only=True),
    "sin": Function(1, np.sin, float_only=True),
    "cos": Function(1, np.cos, float_only=True),
    "erf": Function(1, erf, float_only=True),
    **{name: Function(1, apply, float_only=True) for name, apply in special.UNARY.items()},
    "tan": Function(1, np.tan, float_only=True),
    "asin": Function(1, np.arcsin, float_only=True),
    "acos": Function(1, np.arccos, float_only=True),
    "atan": Function(1, np.arctan, float_only=True),
    "sinh": Function(1, np.sinh, float_only=True),
    "cosh": Function(1, np.cosh, float_only=True),
    "asinh": Function(1, np.arcsinh, float_only=True),
    "acosh": Function(1, np.arccosh, float_only=True),
    "atanh": Function(1, np.arctanh, float_only=True),
    "log10": Function(1, np.log10, float_only=True),
    "cbrt": Function(1, np.cbrt, float_only=True),
    "rcbrt": Function(1, lambda x: 1 / np.cbrt(x), float_only=True),
    "round": Function(1, special.rounded_half_away, float_only=True, exact=True),
    "logb": Function(1, special.exponent, float_only=True, exact=True),
    "signbit": Function(1, np.signbit, float_only=True),
    "isfinite": Function(1, np.isfinite, float_only=True),
    "atan2": Function(2, np.arctan2, float_only=True),
    "hypot": Function(2, np.hypot, float_only=True),
    "rhypot": Function(2, lambda x, y: 1 / np.hypot(x, y), float_only=True),
    "fmod": Function(2, np.fmod, float_only=True, exact=True),
    "remainder": Function(2, special.ieee_remainder, float_only=True, exact=True),
    "fdim": Function(2, special.positive_difference, float_only=True),
    "nextafter": Function(2, np.nextafter, float_only=True),
    "jn": Function(2, special.bessel_jn, float_only=True),
    "yn": Function(2, special.bessel_yn, float_only=True),
    "ldexp": Function(2, special.scaled_by_power, float_only=True),
    "floor": Function(1, np.floor, float_only=True, exact=True),
    "ceil": Function(1, np.ceil, float_only=True, exact=True),
    "rint": Function(1, np.rint, float_only=True, exact=True),
    "trunc": Function(1, np.trunc, float_only=True, exact=True),
    "isnan": Function(1, np.isnan, float_only=True),
    "isinf": Function(1, np.isinf, float_only=True),
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
    "maximum_number": Function(2, np.fmax),
    "minimum_number": Function(2, np.fmin),
    "pow": Function(2, np.power, float_only=True),
    "copysign": Function(2, np.copysign, float_only=True, exact=True),
    "tdiv": Function(2, truncated_quotient, int_only=True),
    "trem": Function(2, truncated_remainder, int_only=True),
    "umulhi": Function(3, high_product, int_only=True),
    "popcount": Function(2, ones, int_only=True),
    "clz": Function(2, leading_zeros, int_only=True),
    "ffs": Function(2, lowest_one, int_only=True),
    "brev": Function(2, reversed_bits, int_only=True),
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
    "cas": Function(3, _exchanged, as_is=3, exact=True),
    "philox": Function(8, philox, int_only=True),
    "bitcast": Function(1, layouts.retyped, as_is=1, exact=True, retypes=True),
    "rearrange": Function(1, layouts.rearranged, as_is=1, exact=True, lays_out=True),
    "combine": Function(2, layouts.combined, as_is=2, exact=True, lays_out=True),
    "histogram": Function(1, layouts.histogram, int_only=True, exact=True, lays_out=True),
    "gather": Function(2, layouts.gathered, as_is=2, exact=True, picks=True),
    "sort": Function(1, _in_order, scans=True, exact=True),
    "merge": Function(1, _in_order, scans=True, exact=True),
    "sum": Function(1, _sum, reduces=True),
    "prod": Function(1, lambda x, axis: x.prod(axis=axis, keepdims=True), reduces=True),
    "reduce_and": Function(1, _reduction(np.bitwise_and), reduces=True, int_only=True),
    "reduce_or": Function(1, _reduction(np.bitwise_or), reduces=True, int_only=True),
    "reduce_xor": Function(1, _reduction(np.bitwise_xor), reduces=True, int_only=True),
    "argmax": Function(1, lambda x, axis: np.argmax(x, axis=axis, keepdims=True), reduces=True, exact=True),
    "argmin": Function(1, lambda x, axis: np.argmin(x, axis=axis, keepdims=True), reduces=True, exact=True),
    "argmax_number": Function(1, _first_number(np.fmax), reduces=True, exact=True),
    "argmin_number": Function(1, _first_number(np.fmin), reduces=True, exact=True),
    "cumsum": Function(1, _scan(np.add), scans=True),
    "cumprod": Function(1, _scan(np.multiply), scans=True),
    "cummax": Function(1, _scan(np.maximum), scans=True, exact=True),
    "cummin": Function(1, _scan(np.minimum), scans=True, exact=True),
    "cummax_number": Function(1, _scan(np.fmax), scans=True, exact=True),
    "cummin_number": Function(1, _scan(np.fmin), scans=True, exact=True),
    "max": Function(1, lambda x, axis: x.max(axis=axis, keepdims=True), reduces=True),
    "min": Function(1, lambda x, axis: x.min(axis=axis, keepdims=True), reduces=True),
    "max_number": Function(1, _reduction(np.fmax), reduces=True),
    "min_number": Function(1, _reduction(np.fmin), reduces=True),
}
"""The functions of MATH records, by `MathAttributes.op`."""
