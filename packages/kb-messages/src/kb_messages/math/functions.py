"""The functions of MATH: the number and kind of their arguments, and the form of their results.

kb-dataexec computes the functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from kb_messages.log.oplog import MathAttributes
from kb_messages.math.vector import VectorValue


class MathFunction(NamedTuple):
    """The kind of a function. `arity` counts operands and scalars.

    The result of a test (`is_test`) is bool, and the result of a search (`finds`) is an index, i32. A reduction
    (`reduces`) has an axis, along which the result has length 1. A scan (`scans`) has an axis too, and keeps the shape.
    A function that `generates` takes only scalars, and fills any shape. A function that `spreads` repeats rows, by the
    `group` of its attributes. A function that `picks` chooses elements along an axis by its first argument. A function
    that `lays_out` has a result of a shape of its own, and each element may come from any other place. A function that
    `retypes` reads the same bytes as another type. A function takes floats and integers unless it is `float_only` or
    `int_only`.
    """

    arity: int
    float_only: bool = False
    int_only: bool = False
    reduces: bool = False
    is_test: bool = False
    scans: bool = False
    generates: bool = False
    finds: bool = False
    spreads: bool = False
    picks: bool = False
    lays_out: bool = False
    retypes: bool = False

    @property
    def has_axis(self) -> bool:
        """Whether the function goes along an axis."""
        return self.reduces or self.scans or self.picks

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of the result depends only on the elements at its place, or of its row or column."""
        return not (self.has_axis or self.generates or self.spreads or self.lays_out or self.retypes)


def _table() -> dict[str, MathFunction]:
    kinds = {
        "fill": MathFunction(1, generates=True),
        "index": MathFunction(3, int_only=True, generates=True),
        "copy neg abs relu sign": MathFunction(1),
        "spread": MathFunction(1, spreads=True),
        "exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos erf sigmoid tanh gelu silu": MathFunction(1, float_only=True),
        "tan asin acos atan sinh cosh asinh acosh atanh sinpi cospi log10 exp10": MathFunction(1, float_only=True),
        "cbrt rcbrt erfc erfcx erfinv erfcinv normcdf normcdfinv lgamma tgamma": MathFunction(1, float_only=True),
        "j0 j1 y0 y1 cyl_bessel_i0 cyl_bessel_i1 logb": MathFunction(1, float_only=True),
        "floor ceil rint round trunc": MathFunction(1, float_only=True),
        "isnan isinf isfinite signbit": MathFunction(1, float_only=True, is_test=True),
        "not": MathFunction(1, is_test=True),
        "add sub mul maximum minimum maximum_number minimum_number": MathFunction(2),
        "div pow copysign atan2 hypot rhypot fmod remainder fdim nextafter ldexp jn yn": MathFunction(
            2, float_only=True
        ),
        "floordiv mod tdiv trem lshift rshift bit_and bit_or bit_xor popcount clz ffs brev": MathFunction(
            2, int_only=True
        ),
        "umulhi": MathFunction(3, int_only=True),
        "bit_not": MathFunction(1, int_only=True),
        "eq ne lt le gt ge and or": MathFunction(2, is_test=True),
        "where fma cas": MathFunction(3),
        "philox": MathFunction(8, int_only=True),
        "bitcast": MathFunction(1, retypes=True),
        "rearrange": MathFunction(1, lays_out=True),
        "combine": MathFunction(2, lays_out=True),
        "histogram": MathFunction(1, int_only=True, lays_out=True),
        "gather": MathFunction(2, picks=True),
        "sum prod max min max_number min_number": MathFunction(1, reduces=True),
        "reduce_and reduce_or reduce_xor": MathFunction(1, int_only=True, reduces=True),
        "argmax argmin argmax_number argmin_number": MathFunction(1, reduces=True, finds=True),
        "cumsum cumprod cummax cummin cummax_number cummin_number sort merge": MathFunction(1, scans=True),
    }
    return {name: kind for names, kind in kinds.items() for name in names.split()}


MATH_FUNCTIONS: Final = _table()
"""Every function by its name in plans and records (`MathAttributes.op`)."""


def has_own_form(op: str) -> bool:
    """Whether the shape or type of the result of *op* does not follow from its arguments by broadcasting."""
    function = MATH_FUNCTIONS[op]
    return function.lays_out or function.picks or function.retypes


def misfit(math: MathAttributes, inputs: Sequence[VectorValue], out: VectorValue) -> str:
    """The first condition that *math* with *inputs* and result *out* breaks, as a noun phrase; empty when all fits.

    *math* is a function with a form of its own (see `has_own_form`). An error says "needs" before the phrase.
    """
    function = MATH_FUNCTIONS[math.op]
    if math.group is not None:
        return "no group of rows"
    if function.retypes:
        fits = (inputs[0].rows, inputs[0].cols, inputs[0].dtype.nbytes) == (out.rows, out.cols, out.dtype.nbytes)
        return "" if fits else f"a result of {inputs[0].rows} x {inputs[0].cols} elements as wide"
    if function.picks:
        return _misfit_of_picks(math, inputs, out)
    if math.op == "histogram":
        return "" if out.rows == 1 and not out.dtype.is_float else "a row of integers as the result"
    return _misfit_of_order(math, inputs, out)


def _misfit_of_picks(math: MathAttributes, inputs: Sequence[VectorValue], out: VectorValue) -> str:
    index, source = inputs
    if index.dtype.is_float:
        return "an index of integers"
    if (index.rows, index.cols) != (out.rows, out.cols):
        return f"a result of {index.rows} x {index.cols}, as the index has"
    across = (index.cols, source.cols) if math.axis == 0 else (index.rows, source.rows)
    return "" if across[0] == across[1] else "an index as long as the source across the axis"


def _misfit_of_order(math: MathAttributes, inputs: Sequence[VectorValue], out: VectorValue) -> str:
    if len({each.dtype for each in inputs}) > 1:
        return "inputs of one type"
    lengths, strides = math.lengths, math.strides
    if not lengths or len(lengths) != len(strides) or min(lengths) < 1:
        return "positive lengths, and a stride for each"
    if prod(lengths) != out.rows * out.cols:
        return f"lengths of {out.rows} x {out.cols} elements together"
    ends = [(length - 1) * stride for length, stride in zip(lengths, strides, strict=True)]
    count = sum(each.rows * each.cols for each in inputs)
    low, high = math.first + sum(min(end, 0) for end in ends), math.first + sum(max(end, 0) for end in ends)
    return "" if low >= 0 and high < count else f"an order within the {count} elements"
