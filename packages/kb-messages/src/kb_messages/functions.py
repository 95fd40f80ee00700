"""The functions of MATH, with the number and kind of their arguments. kb-dataexec computes them."""

from __future__ import annotations

from typing import Final, NamedTuple


class MathFunction(NamedTuple):
    """`arity` counts operands and scalars. A reduction has an axis, and the result of a test is bool.

    A function takes floats and integers unless it is `float_only` or `int_only`.
    """

    arity: int
    float_only: bool = False
    int_only: bool = False
    reduces: bool = False
    is_test: bool = False


def _table() -> dict[str, MathFunction]:
    kinds = {
        "copy neg abs relu": MathFunction(1),
        "exp log sqrt rsqrt sigmoid tanh gelu silu": MathFunction(1, float_only=True),
        "not": MathFunction(1, is_test=True),
        "add sub mul maximum minimum": MathFunction(2),
        "div pow": MathFunction(2, float_only=True),
        "floordiv mod lshift rshift bit_and bit_or bit_xor": MathFunction(2, int_only=True),
        "bit_not": MathFunction(1, int_only=True),
        "eq ne lt le gt ge and or": MathFunction(2, is_test=True),
        "where fma": MathFunction(3),
        "sum max min": MathFunction(1, reduces=True),
    }
    return {name: kind for names, kind in kinds.items() for name in names.split()}


MATH_FUNCTIONS: Final = _table()
"""Every function by its name in plans and records (`MathAttributes.op`)."""
