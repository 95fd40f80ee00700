"""Elementary functions of floats and integers, element by element."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numpy as np

from kb_messages import MATH_FUNCTIONS
from kb_triton.language.tensors.arithmetic import (
    as_tensor,
    binary,
    bytes_of,
    compute,
    constant_number,
    elementwise,
    negative,
    plain_number,
    refuse_f64,
    rounded,
)
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import dtype, float32, int1, promoted, type_of_number, with_number
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, provide, tensor
from kb_triton.language.tensors.values import NUMBERS, is_known

_OF_NUMBERS: Final[dict[str, Callable[[Any], Any]]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "floor": np.floor, "ceil": np.ceil, "rsqrt": lambda x: np.float32(1) / np.sqrt(x), "tanh": np.tanh,
    "sigmoid": lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)), "expm1": np.expm1, "log1p": np.log1p,
}  # fmt: skip


def of_floats(op: str, x: Any, name: str = "") -> tensor:
    """Returns the function *op* of each float of *x*. Raises KernelError, with *name*, for other types."""
    given = as_tensor(x)
    if not given.dtype.is_float:
        refuse(f"tl.{name or op} of {describe(given)}", "floats", "cast to tl.float32 first")
    if given.dtype.is_f64:
        refuse_f64(f"tl.{name or op}")
    if type(given.value) in NUMBERS and op in _OF_NUMBERS:
        with np.errstate(all="ignore"):
            number = float(_OF_NUMBERS[op](np.float32(given.value)))
        return tensor(rounded(number, given.dtype), given.shape, given.dtype)
    if op not in MATH_FUNCTIONS:
        refuse(f"tl.{name or op}", "a function that the chip has")
    return elementwise(op, given, int1 if MATH_FUNCTIONS[op].is_test else None)


def two_floats(op: str, x: Any, y: Any, name: str) -> tensor:
    """Returns the function *op* of each pair of floats; integers become f32. Errors have *name*."""
    one, two = as_tensor(x), as_tensor(y)
    kind = common_type(x, y)
    if not kind.is_float:
        kind = float32
    if kind.is_f64:
        refuse_f64(f"tl.{name}")
    if op not in MATH_FUNCTIONS:
        refuse(f"tl.{name}", "a function that the chip has")
    one, two = cast(one, kind), cast(two, kind)
    if type(one.value) in NUMBERS and type(two.value) in NUMBERS:
        one = tensor(bytes_of(one), one.shape, kind)
    return compute(op, one, two, kind)


def common_type(*values: Any) -> dtype:
    """Returns the type that an op of all *values*, tensors and numbers, computes in."""
    kinds = [each.dtype for each in values if isinstance(each, tensor)]
    if not kinds:
        return as_tensor(values[0]).dtype if len(values) == 1 else _of_numbers(values)
    found = kinds[0]
    for each in kinds[1:]:
        found = promoted(found, each)
    for each in values:
        if not isinstance(each, tensor):
            found = with_number(found, as_number(each))
    return found


def _of_numbers(values: Any) -> dtype:
    found = type_of_number(as_number(values[0]))
    for each in values[1:]:
        found = promoted(found, type_of_number(as_number(each)))
    return found


def as_number(value: Any) -> Any:
    """Returns *value* as a Python number. Raises KernelError for an object that is no number."""
    number = plain_number(value)
    if number is None:
        refuse(describe(value), "a tensor or a number")
    return number


def exp(x: Any) -> tensor:
    """e to the power of each element."""
    return of_floats("exp", x)


def exp2(x: Any) -> tensor:
    """2 to the power of each element."""
    return of_floats("exp2", x)


def log(x: Any) -> tensor:
    """The natural logarithm of each element."""
    return of_floats("log", x)


def log2(x: Any) -> tensor:
    """The logarithm to the base 2 of each element."""
    return of_floats("log2", x)


def sqrt(x: Any) -> tensor:
    """The square root of each element."""
    return of_floats("sqrt", x)


def sqrt_rn(x: Any) -> tensor:
    """The square root of each element, rounded to nearest."""
    return of_floats("sqrt", x, "sqrt_rn")


def rsqrt(x: Any) -> tensor:
    """One over the square root of each element."""
    return of_floats("rsqrt", x)


def sin(x: Any) -> tensor:
    """The sine of each element."""
    return of_floats("sin", x)


def cos(x: Any) -> tensor:
    """The cosine of each element."""
    return of_floats("cos", x)


def erf(x: Any) -> tensor:
    """The error function of each element."""
    return of_floats("erf", x)


def floor(x: Any) -> tensor:
    """The next whole number below each element."""
    return of_floats("floor", x)


def ceil(x: Any) -> tensor:
    """The next whole number above each element."""
    return of_floats("ceil", x)


def sigmoid(x: Any) -> tensor:
    """`1 / (1 + exp(-x))` of each element."""
    return of_floats("sigmoid", x)


def abs(x: Any) -> tensor:  # noqa: A001 - Triton's name
    """The absolute value of each element."""
    given = as_tensor(x)
    if type(given.value) in NUMBERS:
        return tensor(rounded(given.value if given.value >= 0 else -given.value, given.dtype), given.shape, given.dtype)
    if given.dtype.is_int_unsigned():
        return given
    if is_known(given.value):
        return maximum(given, negative(given))
    return elementwise("abs", given)


def fma(x: Any, y: Any, z: Any) -> tensor:
    """`x * y + z`. The product of floats is rounded to f32 before the sum."""
    kind = common_type(x, y, z)
    if not kind.is_float or kind.is_f64:
        return binary("add", binary("mul", cast(x, kind), cast(y, kind)), cast(z, kind))  # type: ignore[no-any-return]
    product = compute("mul", cast(x, float32), cast(y, float32), float32)
    return cast(compute("add", product, cast(z, float32), float32), kind)


def fdiv(x: Any, y: Any, ieee_rounding: bool = False, approx: bool = False) -> tensor:
    """`x / y` of floats."""
    return binary("div", as_tensor(x), y)  # type: ignore[no-any-return]


def div_rn(x: Any, y: Any) -> tensor:
    """`x / y` of floats, rounded to nearest."""
    return fdiv(x, y)


def umulhi(x: Any, y: Any) -> tensor:
    """The upper half of the product of integers taken as unsigned."""
    one, two = as_tensor(x), as_tensor(y)
    kind = common_type(x, y)
    if kind.is_float or kind.primitive_bitwidth < 32:
        refuse(f"tl.umulhi of {describe(one)} and {describe(two)}", "integers of 32 or 64 bits")
    one, two = cast(one, kind), cast(two, kind)
    bits = kind.primitive_bitwidth
    if type(one.value) in NUMBERS and type(two.value) in NUMBERS:
        mask = (1 << bits) - 1
        return tensor(rounded(((one.value & mask) * (two.value & mask)) >> bits, kind), one.shape, kind)
    shape = compute("add", one, two, kind).shape
    return tensor(machine().math("umulhi", [bytes_of(one), bytes_of(two), bits], kind.kb), shape, kind)


class PropagateNan(IntEnum):
    """Values of `propagate_nan` where one operand is NaN: with ALL, the result is NaN; with NONE, the other operand."""

    NONE = 0
    ALL = 0xFFFF


def maximum(x: Any, y: Any, propagate_nan: Any = None) -> tensor:
    """The larger element of each pair. With one NaN, the result is the other unless *propagate_nan* is ALL."""
    return _extreme("maximum", x, y, propagate_nan)


def minimum(x: Any, y: Any, propagate_nan: Any = None) -> tensor:
    """The smaller element of each pair. With one NaN, the result is the other unless *propagate_nan* is ALL."""
    return _extreme("minimum", x, y, propagate_nan)


def _extreme(op: str, x: Any, y: Any, propagate_nan: Any) -> tensor:
    one = x if isinstance(x, tensor) else as_number(x)
    two = y if isinstance(y, tensor) else as_number(y)
    kind = common_type(one, two)
    if not isinstance(one, tensor) and not isinstance(two, tensor):
        one = cast(one, kind)
    if kind.is_f64:
        refuse_f64(f"tl.{op}")
    keeps_nan = constant_number(propagate_nan) == PropagateNan.ALL
    return compute(op if keeps_nan or not kind.is_float else f"{op}_number", one, two, kind)


def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = None) -> tensor:  # noqa: A002
    """The elements of *x* limited to the range from *min* to *max*."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def mod(x: Any, y: Any) -> tensor:
    """`x % y`, with the sign of *x*."""
    return binary("trem", as_tensor(x), y)  # type: ignore[no-any-return]


def cdiv(x: Any, div: Any) -> Any:
    """The quotient of integers, rounded up."""
    if isinstance(x, tensor) or isinstance(div, tensor):
        return binary("tdiv", binary("sub", binary("add", as_tensor(x), div), 1), div)
    return -(-as_number(x) // as_number(div))


def logical_and(x: Any, y: Any) -> tensor:
    """Whether both elements of each pair are true."""
    return binary("bit_and", cast(x, int1), cast(y, int1))  # type: ignore[no-any-return]


def logical_or(x: Any, y: Any) -> tensor:
    """Whether an element of each pair is true."""
    return binary("bit_or", cast(x, int1), cast(y, int1))  # type: ignore[no-any-return]


def logical_not(x: Any) -> tensor:
    """Whether each element is false."""
    return binary("eq", cast(x, int1), False)  # type: ignore[no-any-return]


provide(
    abs=abs, exp=exp, exp2=exp2, log=log, log2=log2, sqrt=sqrt, rsqrt=rsqrt, sin=sin, cos=cos, erf=erf, floor=floor,
    ceil=ceil, sigmoid=sigmoid, sqrt_rn=sqrt_rn, cdiv=cdiv, logical_and=logical_and, logical_or=logical_or,
)  # fmt: skip
