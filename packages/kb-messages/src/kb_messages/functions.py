"""The functions of MATH, with the number and kind of their arguments. kb-dataexec computes them."""

from __future__ import annotations

from typing import Final, NamedTuple


class MathFunction(NamedTuple):
    """`arity` counts operands and scalars. The result of a test is bool, that of a search (`finds`) is an index, i32.

    A reduction has an axis, along which the result has length 1. A scan has an axis too, and keeps the shape. A
    function that `generates` has scalars alone, and fills any shape. One that `spreads` repeats rows, as the `group`
    of its attributes says. A function takes floats and integers unless it is `float_only` or `int_only`.
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

    @property
    def has_axis(self) -> bool:
        """Whether the function goes along an axis."""
        return self.reduces or self.scans


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
        "add sub mul maximum minimum": MathFunction(2),
        "div pow copysign atan2 hypot rhypot fmod remainder fdim nextafter ldexp": MathFunction(2, float_only=True),
        "floordiv mod tdiv trem lshift rshift bit_and bit_or bit_xor popcount clz ffs brev": MathFunction(
            2, int_only=True
        ),
        "umulhi": MathFunction(3, int_only=True),
        "bit_not": MathFunction(1, int_only=True),
        "eq ne lt le gt ge and or": MathFunction(2, is_test=True),
        "where fma cas": MathFunction(3),
        "sum prod max min": MathFunction(1, reduces=True),
        "reduce_and reduce_or reduce_xor": MathFunction(1, int_only=True, reduces=True),
        "argmax argmin": MathFunction(1, reduces=True, finds=True),
        "cumsum cumprod cummax cummin": MathFunction(1, scans=True),
    }
    return {name: kind for names, kind in kinds.items() for name in names.split()}


MATH_FUNCTIONS: Final = _table()
"""Every function by its name in plans and records (`MathAttributes.op`)."""
