"""The names of `triton.language.extra.libdevice`, as functions of the chip."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

from kb_messages import MATH_FUNCTIONS
from kb_triton.language.elementary import abs as absolute
from kb_triton.language.elementary import fma, maximum, minimum, of_floats, two_floats, umulhi
from kb_triton.language.missing import missing
from kb_triton.language.selection import where
from kb_triton.language.tensors.arithmetic import as_tensor, binary, bytes_of, compute
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import float32, int32, int64, uint32, uint64
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, tensor


def _integer(x: Any, call: str) -> tensor:
    given = as_tensor(x)
    if given.dtype.is_float:
        refuse(f"libdevice.{call} of {describe(given)}", "integers")
    return given


def mulhi(x: Any, y: Any) -> tensor:
    """The upper half of the product of integers."""
    one, two = _integer(x, "mulhi"), _integer(y, "mulhi")
    if not one.dtype.is_int_signed():
        return umulhi(one, two)
    if one.dtype.primitive_bitwidth < 64:
        product = compute("mul", cast(one, int64), cast(two, int64), int64)
        return cast(binary("rshift", product, one.dtype.primitive_bitwidth), one.dtype)
    high = cast(umulhi(cast(one, uint64), cast(two, uint64)), int64)
    found: tensor = high - where(one < 0, two, 0) - where(two < 0, one, 0)
    return found


def hadd(x: Any, y: Any) -> tensor:
    """The mean of two integers, rounded down, without an overflow."""
    one, two = _integer(x, "hadd"), _integer(y, "hadd")
    found: tensor = (one & two) + ((one ^ two) >> 1)
    return found


def rhadd(x: Any, y: Any) -> tensor:
    """The mean of two integers, rounded up, without an overflow."""
    one, two = _integer(x, "rhadd"), _integer(y, "rhadd")
    found: tensor = (one | two) - ((one ^ two) >> 1)
    return found


def sad(x: Any, y: Any, z: Any) -> tensor:
    """`|x - y| + z` of integers, of the type of *x*. The difference does not wrap."""
    one, two = _integer(x, "sad"), _integer(y, "sad")
    difference = absolute(compute("sub", cast(one, int64), cast(two, int64), int64))
    return cast(binary("add", difference, cast(as_tensor(z), int64)), one.dtype)


def byte_perm(x: Any, y: Any, s: Any) -> tensor:
    """Four of the eight bytes of *y* and *x*, chosen by four bits of *s* each.

    The lower three of these bits are the number of a byte. The highest bit replaces the byte by eight copies of its
    sign.
    """
    low, high = (cast(cast(_integer(each, "byte_perm"), uint32), uint64) for each in (x, y))
    both = binary("bit_or", binary("lshift", high, 32), low)
    selector = cast(cast(_integer(s, "byte_perm"), uint32), uint64)
    found: Any = tensor(0, (), uint64)
    for at in range(4):
        field = binary("bit_and", binary("rshift", selector, 4 * at), 15)
        byte = binary("bit_and", binary("rshift", both, binary("bit_and", field, 7) * 8), 255)
        signs = where(byte >= 128, 255, 0)
        chosen = where(field >= 8, signs, byte)
        found = binary("bit_or", found, binary("lshift", cast(chosen, uint64), 8 * at))
    return cast(cast(found, uint32), int32)


_SAME: Final = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "cospi", "cyl_bessel_i0",
    "cyl_bessel_i1", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp10", "exp2", "expm1", "floor", "j0", "j1",
    "lgamma", "log", "log10", "log1p", "log2", "logb", "normcdf", "normcdfinv", "rcbrt", "rint", "round", "rsqrt",
    "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "tgamma", "trunc", "y0", "y1",
)  # fmt: skip
_ONE: Final = {name: name for name in _SAME} | {
    "fast_cosf": "cos", "fast_exp10f": "exp10", "fast_expf": "exp", "fast_log10f": "log10", "fast_log2f": "log2",
    "fast_logf": "log", "fast_sinf": "sin", "fast_tanf": "tan", "fast_tanhf": "tanh", "nearbyint": "rint",
    "rsqrt_rn": "rsqrt", "sqrt_rn": "sqrt", "isnan": "isnan", "isnand": "isnan", "isinf": "isinf", "isinfd": "isinf",
    "isfinited": "isfinite", "finitef": "isfinite", "isfinite": "isfinite", "signbit": "signbit", "signbitf": "signbit",
    "signbitd": "signbit",
}  # fmt: skip
_TWO: Final = {name: name for name in (
    "atan2", "copysign", "fdim", "fmod", "hypot", "rhypot", "nextafter", "pow", "remainder", "ldexp",
)} | {"fast_powf": "pow", "powf": "pow"}  # fmt: skip
_OPERATORS: Final = {
    "add_rn": "add", "sub_rn": "sub", "mul_rn": "mul", "div_rn": "div", "fast_dividef": "div", "mul24": "mul",
}  # fmt: skip
_WHOLE: Final = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _one(name: str, op: str) -> Callable[[Any], tensor]:
    def function(x: Any) -> tensor:
        return of_floats(op, _as_float(x), name)

    return function


def _two(name: str, op: str) -> Callable[[Any, Any], tensor]:
    def function(x: Any, y: Any) -> tensor:
        return two_floats(op, x, y, name)

    return function


def _operator(op: str) -> Callable[[Any, Any], tensor]:
    def function(x: Any, y: Any) -> tensor:
        found: tensor = binary(op, as_tensor(x), y)
        return found

    return function


def _as_float(x: Any) -> tensor:
    given = as_tensor(x)
    return given if given.dtype.is_float else cast(given, float32)


def _rounded_to(op: str, kind: Any) -> Callable[[Any], tensor]:
    def function(x: Any) -> tensor:
        return cast(of_floats(op, x), kind)

    return function


def _converted(kind: Any) -> Callable[[Any], tensor]:
    def function(x: Any) -> tensor:
        return cast(x, kind)

    return function


def _bits(kind: Any) -> Callable[[Any], tensor]:
    def function(x: Any) -> tensor:
        return cast(x, kind, bitcast=True)

    return function


def ilogb(x: Any) -> tensor:
    """The exponent of `logb` as int32: -2^31 for 0 and NaN, 2^31 - 1 for an infinity.

    Source of the three: CUDA math API, `ilogbf`.
    """
    given = _as_float(x)
    size = absolute(given)
    power = of_floats("logb", where((size > 0) & (size < inf), given, 1.0), "ilogb")
    return where(
        size < inf, where(size == 0, -(1 << 31), cast(power, int32)), where(size == inf, (1 << 31) - 1, -(1 << 31))
    )


def _of_order(name: str) -> Callable[[Any, Any], tensor]:
    def function(n: Any, x: Any) -> tensor:
        return two_floats(name, _integer(n, name), _as_float(x), name)

    return function


def _counted(op: str) -> Callable[[Any], tensor]:
    def function(x: Any) -> tensor:
        given = as_tensor(x)
        if given.dtype.is_float or op not in MATH_FUNCTIONS:
            refuse(f"libdevice.{op} of {describe(given)}", "integers of 32 or 64 bits")
        bits = given.dtype.primitive_bitwidth
        kind = given.dtype if op == "brev" else int32
        return tensor(machine().math(op, [bytes_of(given), bits], kind.kb), given.shape, kind)

    return function


def _inverse(x: Any) -> tensor:
    found: tensor = binary("div", 1.0, _as_float(x))
    return found


def saturatef(x: Any) -> tensor:
    """The elements of *x* limited to the range from 0 to 1."""
    return minimum(maximum(x, 0.0), 1.0)


def _length(*parts: Any) -> tensor:
    """The Euclidean length of vectors whose elements are the *parts*."""
    floats = [_as_float(each) for each in parts]
    return of_floats("sqrt", sum((each * each for each in floats[1:]), floats[0] * floats[0]))


def norm3d(x: Any, y: Any, z: Any) -> tensor:
    """The length of vectors of three elements."""
    return _length(x, y, z)


def norm4d(x: Any, y: Any, z: Any, w: Any) -> tensor:
    """The length of vectors of four elements."""
    return _length(x, y, z, w)


def rnorm3d(x: Any, y: Any, z: Any) -> tensor:
    """1 over the length of vectors of three elements."""
    return _inverse(_length(x, y, z))


def rnorm4d(x: Any, y: Any, z: Any, w: Any) -> tensor:
    """1 over the length of vectors of four elements."""
    return _inverse(_length(x, y, z, w))


def fma_rn(x: Any, y: Any, z: Any) -> tensor:
    """`x * y + z`, computed as `fma` does: the product is rounded to f32 before the sum."""
    return fma(x, y, z)


def _table() -> dict[str, Callable[..., tensor]]:
    found: dict[str, Callable[..., tensor]] = {name: _one(name, op) for name, op in _ONE.items()}
    found.update({name: _two(name, op) for name, op in _TWO.items()})
    found.update({name: _operator(op) for name, op in _OPERATORS.items()})
    for suffix, op in _WHOLE.items():
        found[f"float2int_{suffix}"] = _rounded_to(op, int32)
        found[f"float2uint_{suffix}"] = _rounded_to(op, uint32)
        found[f"float2ll_{suffix}"] = _rounded_to(op, int64)
        found[f"float2ull_{suffix}"] = _rounded_to(op, uint64)
    for name in ("int2float_rn", "uint2float_rn", "ll2float_rn", "ull2float_rn"):
        found[name] = _converted(float32)
    found.update({
        "llrint": _rounded_to("rint", int64), "llround": _rounded_to("round", int64),
        "float_as_int": _bits(int32), "float_as_uint": _bits(uint32), "int_as_float": _bits(float32),
        "uint_as_float": _bits(float32), "popc": _counted("popcount"), "clz": _counted("clz"), "ffs": _counted("ffs"),
        "brev": _counted("brev"), "rcp_rn": _inverse, "fabs": absolute, "abs": absolute, "fma": fma, "fma_rn": fma_rn,
        "max": maximum, "min": minimum, "fmax": maximum, "fmin": minimum, "umulhi": umulhi, "mulhi": mulhi,
        "norm3d": norm3d, "norm4d": norm4d, "rnorm3d": rnorm3d, "rnorm4d": rnorm4d, "saturatef": saturatef,
        "hadd": hadd, "rhadd": rhadd, "sad": sad, "byte_perm": byte_perm, "scalbn": _two("scalbn", "ldexp"),
        "ilogb": ilogb, "jn": _of_order("jn"), "yn": _of_order("yn"),
    })  # fmt: skip
    return found


FUNCTIONS: Final = _table()
"""All functions of the module by name."""


def __getattr__(name: str) -> Callable[..., tensor]:
    found = FUNCTIONS.get(name)
    if found is None:
        nearest = f"{name[:-2]}rn"
        if name[-3:] in ("_rd", "_ru", "_rz") and nearest in FUNCTIONS:
            raise missing("libdevice", name, fix=f"the chip rounds to nearest; use libdevice.{nearest}")
        if "double" in name or name == "rcp64h":
            raise missing("libdevice", name, fix="the chip has no arithmetic on float64; use float32")
        raise missing("libdevice", name, FUNCTIONS)
    return found
