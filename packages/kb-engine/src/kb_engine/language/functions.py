"""The math functions of `tl` by name, of elements and along an axis. `MathOps` implements their calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from operator import index as as_integer
from typing import Final, Literal, TypeVar, overload

from kb_engine.language.call_rules import Argument
from kb_engine.program.language_base import LanguageBase
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_messages import DType, KernelError

_SEARCHES: Final = {"max": "argmax", "min": "argmin"}
_ROUNDS: Final = ("sum", "prod")
"""Reductions whose results are rounded to their dtype: once, for any number of axes."""
CallT = TypeVar("CallT", bound=Callable[..., LoadedTensor])


def _named(call: CallT, op: str, meaning: str) -> CallT:
    call.__name__, call.__qualname__, call.__doc__ = op, f"MathFunctions.{op}", meaning
    return call


def _of_one(op: str, meaning: str) -> Callable[[MathFunctions, Handle], LoadedTensor]:
    """The function *op* of one value, with *meaning* as its docstring."""

    def call(self: MathFunctions, x: Handle) -> LoadedTensor:
        return self._call(op, [x])

    return _named(call, op, meaning)


def _of_two(op: str, meaning: str) -> Callable[[MathFunctions, Argument, Argument], LoadedTensor]:
    """The function *op* of two values, with *meaning* as its docstring."""

    def call(self: MathFunctions, x: Argument, y: Argument) -> LoadedTensor:
        return self._call(op, [x, y])

    return _named(call, op, meaning)


def _of_bits(op: str, meaning: str) -> Callable[[MathFunctions, Handle], LoadedTensor]:
    """The function *op* of the bits of integers, with *meaning* as its docstring."""

    def call(self: MathFunctions, x: Handle) -> LoadedTensor:
        return self._call(op, [x, self._bits(x, op)])

    return _named(call, op, meaning)


class MathFunctions(LanguageBase):
    """Functions of values in TCM. Each takes handles, and numbers where the types allow them; their shapes
    broadcast."""

    @abstractmethod
    def _call(
        self,
        op: str,
        arguments: Sequence[Argument],
        axis: int | None = None,
        dtype: DType | None = None,
        reverse: bool = False,
    ) -> LoadedTensor:
        """The result of the function *op*."""

    exp = _of_one("exp", "e to the power of each element.")
    exp2 = _of_one("exp2", "2 to the power of each element.")
    expm1 = _of_one("expm1", "`exp(x) - 1` of each element, precise near 0.")
    log = _of_one("log", "The natural logarithm of each element.")
    log2 = _of_one("log2", "The logarithm to the base 2 of each element.")
    log1p = _of_one("log1p", "`log(1 + x)` of each element, precise near 0.")
    sqrt = _of_one("sqrt", "The square root of each element.")
    rsqrt = _of_one("rsqrt", "One over the square root of each element.")
    sin = _of_one("sin", "The sine of each element, in radians.")
    cos = _of_one("cos", "The cosine of each element, in radians.")
    tanh = _of_one("tanh", "The hyperbolic tangent of each element.")
    erf = _of_one("erf", "The error function of each element.")
    sigmoid = _of_one("sigmoid", "`1 / (1 + exp(-x))` of each element.")
    pow = _of_two("pow", "x to the power of y, of floats.")
    abs = _of_one("abs", "The absolute value of each element.")
    sign = _of_one("sign", "-1, 0 or 1 for each element that is negative, zero or positive.")
    copysign = _of_two("copysign", "The elements of x with the signs of the elements of y, of floats.")
    floor = _of_one("floor", "The next whole number below each float.")
    ceil = _of_one("ceil", "The next whole number above each float.")
    rint = _of_one("rint", "The nearest whole number of each float; of two equally near, the even one.")
    trunc = _of_one("trunc", "The next whole number of each float toward zero.")
    round = _of_one("round", "The nearest whole number of each float; of two equally near, the one away from zero.")
    isnan = _of_one("isnan", "Whether each float is NaN.")
    isinf = _of_one("isinf", "Whether each float is infinite.")
    isfinite = _of_one("isfinite", "Whether each float is neither infinite nor NaN.")
    signbit = _of_one("signbit", "Whether each float has a minus sign; -0.0 has one.")
    maximum = _of_two("maximum", "The larger element of each pair.")
    minimum = _of_two("minimum", "The smaller element of each pair.")

    def clamp(self, x: Argument, low: Argument, high: Argument) -> LoadedTensor:
        """The elements of *x*, limited to the range from *low* to *high*. NaN stays NaN."""
        return self._call("minimum", [self._call("maximum", [x, low]), high])

    def where(self, condition: Handle, x: Argument, y: Argument) -> LoadedTensor:
        """The elements of *x* where *condition* is not 0, and the elements of *y* elsewhere."""
        return self._call("where", [condition, x, y])

    def fma(self, x: Handle, y: Argument, z: Argument) -> LoadedTensor:
        """`x * y + z` in f32, rounded once to the dtype of the result."""
        return self._call("fma", [x, y, z])

    tdiv = _of_two("tdiv", "The quotient of integers, rounded toward zero; 0 where y is 0.")
    trem = _of_two("trem", "The remainder of `tdiv`, with the sign of x; 0 where y is 0.")

    def umulhi(self, x: Argument, y: Argument) -> LoadedTensor:
        """The upper half of the product of integers taken as unsigned, of the wider of the two dtypes."""
        bits = max(self._bits(each, "umulhi") for each in (x, y) if not isinstance(each, int))
        return self._call("umulhi", [x, y, bits])

    popcount = _of_bits("popcount", "The number of bits that are 1, of integers.")
    clz = _of_bits("clz", "The number of bits before the first that is 1, of integers.")
    ffs = _of_bits("ffs", "The place of the lowest bit that is 1, counted from 1, of integers; 0 where there is none.")
    brev = _of_bits("brev", "The bits of integers in reverse order.")

    def _bits(self, x: Argument, op: str) -> int:
        """The bits of an element of *x*. Raises KernelError unless *x* has integers."""
        dtype = x.integers if isinstance(x, HostValue) else getattr(x, "dtype", None)
        if not isinstance(dtype, DType) or dtype.is_float:
            raise KernelError(self._port.line(), f"tl.{op} of {dtype or type(x).__name__}", "integers")
        return 8 * dtype.nbytes


class SpecialFunctions(MathFunctions):
    """Each is one op, which computes in f32 and rounds once to the dtype of its result."""

    tan = _of_one("tan", "The tangent of each element, in radians.")
    asin = _of_one("asin", "The arc sine of each element, in radians; NaN beyond 1.")
    acos = _of_one("acos", "The arc cosine of each element, in radians; NaN beyond 1.")
    atan = _of_one("atan", "The arc tangent of each element, in radians.")
    sinpi = _of_one("sinpi", "The sine of pi times each element.")
    cospi = _of_one("cospi", "The cosine of pi times each element.")
    sinh = _of_one("sinh", "The hyperbolic sine of each element.")
    cosh = _of_one("cosh", "The hyperbolic cosine of each element.")
    asinh = _of_one("asinh", "The inverse hyperbolic sine of each element.")
    acosh = _of_one("acosh", "The inverse hyperbolic cosine of each element; NaN below 1.")
    atanh = _of_one("atanh", "The inverse hyperbolic tangent of each element; NaN beyond 1.")
    exp10 = _of_one("exp10", "10 to the power of each element.")
    log10 = _of_one("log10", "The logarithm to the base 10 of each element.")
    cbrt = _of_one("cbrt", "The cube root of each element.")
    rcbrt = _of_one("rcbrt", "One over the cube root of each element.")
    erfc = _of_one("erfc", "`1 - erf(x)` of each element, precise where it is small.")
    erfcx = _of_one("erfcx", "`exp(x * x) * erfc(x)` of each element.")
    erfinv = _of_one("erfinv", "The number whose `erf` is x, for each element.")
    erfcinv = _of_one("erfcinv", "The number whose `erfc` is x, for each element.")
    normcdf = _of_one("normcdf", "The probability that a standard normal number is below each element.")
    normcdfinv = _of_one("normcdfinv", "The number whose `normcdf` is x, for each element.")
    lgamma = _of_one("lgamma", "The natural logarithm of the absolute value of the gamma function of each element.")
    tgamma = _of_one("tgamma", "The gamma function of each element.")
    j0 = _of_one("j0", "The Bessel function of the first kind, of order 0, of each element.")
    j1 = _of_one("j1", "The Bessel function of the first kind, of order 1, of each element.")
    y0 = _of_one("y0", "The Bessel function of the second kind, of order 0, of each element.")
    y1 = _of_one("y1", "The Bessel function of the second kind, of order 1, of each element.")
    cyl_bessel_i0 = _of_one(
        "cyl_bessel_i0", "The modified Bessel function of the first kind, of order 0, of each element."
    )
    cyl_bessel_i1 = _of_one(
        "cyl_bessel_i1", "The modified Bessel function of the first kind, of order 1, of each element."
    )
    logb = _of_one("logb", "The exponent of the power of two at or below the absolute value of each element.")

    def jn(self, n: Argument, x: Argument) -> LoadedTensor:
        """The Bessel function of the first kind, of order n, of each element; NaN for an order below 0."""
        return self._call("jn", [n, x])

    def yn(self, n: Argument, x: Argument) -> LoadedTensor:
        """The Bessel function of the second kind, of order n, of each element; NaN for an order below 0."""
        return self._call("yn", [n, x])

    def atan2(self, y: Argument, x: Argument) -> LoadedTensor:
        """The angle of the point (y, x) to the x axis, in radians."""
        return self._call("atan2", [y, x])

    hypot = _of_two("hypot", "`sqrt(x * x + y * y)`, without overflow in between.")
    rhypot = _of_two("rhypot", "One over `hypot(x, y)`.")
    fmod = _of_two("fmod", "The remainder of the division of floats, with the sign of x. Exact.")
    remainder = _of_two(
        "remainder", "x less the multiple of y that is nearest to it; of two equally near, the even multiple. Exact."
    )
    fdim = _of_two("fdim", "`x - y` where that is positive, else 0.")
    nextafter = _of_two("nextafter", "The next f32 from x towards y.")

    def ldexp(self, x: Argument, n: Argument) -> LoadedTensor:
        """x times 2 to the power of the whole number n."""
        return self._call("ldexp", [x, n])


class AxisFunctions(SpecialFunctions):
    """Reductions, whose axis stays with length 1, and scans, whose result has the shape of the argument.

    A reduction without an axis goes over all elements. With `keep_dims=False` the reduced axes are dropped, in no time.

    A sum or product of integers below 32 bits is i32. Raises KernelError for an axis that the argument does not have.
    """

    def sum(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The sum over *axis*."""
        return self._reduced("sum", x, axis, keep_dims)

    def prod(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The product over *axis*."""
        return self._reduced("prod", x, axis, keep_dims)

    @overload
    def max(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: Literal[False] = False
    ) -> LoadedTensor: ...

    @overload
    def max(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, *, return_indices: Literal[True]
    ) -> tuple[LoadedTensor, LoadedTensor]: ...

    def max(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: bool = False
    ) -> LoadedTensor | tuple[LoadedTensor, LoadedTensor]:
        """The largest element over *axis*; with *return_indices* also its index, the result of `argmax`."""
        return self._extreme("max", x, axis, keep_dims, return_indices)

    @overload
    def min(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: Literal[False] = False
    ) -> LoadedTensor: ...

    @overload
    def min(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, *, return_indices: Literal[True]
    ) -> tuple[LoadedTensor, LoadedTensor]: ...

    def min(
        self, x: Handle, axis: int | None = None, keep_dims: bool = True, return_indices: bool = False
    ) -> LoadedTensor | tuple[LoadedTensor, LoadedTensor]:
        """The smallest element over *axis*; with *return_indices* also its index, the result of `argmin`."""
        return self._extreme("min", x, axis, keep_dims, return_indices)

    def argmax(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The index, i32, of the largest element over *axis*; the lowest index of equal elements. Without an axis, the
        index counts in `ravel` order."""
        return self._reduced("argmax", x, axis, keep_dims)

    def argmin(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The index, i32, of the smallest element over *axis*; the lowest index of equal elements. Without an axis, the
        index counts in `ravel` order."""
        return self._reduced("argmin", x, axis, keep_dims)

    def reduce_and(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The bitwise and of all integers over *axis*."""
        return self._reduced("reduce_and", x, axis, keep_dims)

    def reduce_or(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The bitwise or of all integers over *axis*."""
        return self._reduced("reduce_or", x, axis, keep_dims)

    def xor_sum(self, x: Handle, axis: int | None = None, keep_dims: bool = True) -> LoadedTensor:
        """The bitwise exclusive or of all integers over *axis*."""
        return self._reduced("reduce_xor", x, axis, keep_dims)

    def cumsum(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The sums of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cumsum", x, axis, reverse)

    def cumprod(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The products of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cumprod", x, axis, reverse)

    def cummax(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The largest of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cummax", x, axis, reverse)

    def cummin(self, x: Handle, axis: int = 0, reverse: bool = False) -> LoadedTensor:
        """The smallest of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
        return self._along("cummin", x, axis, reverse)

    def _extreme(
        self, op: str, x: Handle, axis: int | None, keep_dims: bool, return_indices: bool
    ) -> LoadedTensor | tuple[LoadedTensor, LoadedTensor]:
        found = self._reduced(op, x, axis, keep_dims)
        return (found, self._reduced(_SEARCHES[op], x, axis, keep_dims)) if return_indices else found

    def _reduced(self, op: str, x: Handle, axis: int | None, keep_dims: bool) -> LoadedTensor:
        """The reduction of *x* over *axis*, or over all axes: along rows first, and then over the rows."""
        shape: tuple[int, ...] = getattr(x, "shape", (1, 1))
        if axis is not None:
            found = self._along(op, x, axis)
            dropped = axis % len(shape)
            return found if keep_dims else found.reshape(shape[:dropped] + shape[dropped + 1 :])
        if op in _SEARCHES.values() or not shape:
            found = self._along(op, x.reshape((-1,)), -1)
        elif prod(shape[:-1]) > 1:
            dtype: DType | None = getattr(x, "dtype", None)
            rounds = op in _ROUNDS and dtype is not None and dtype.is_float
            of_rows = self._along(op, x, -1, dtype=DType.F32 if rounds else None)
            found = self._along(op, of_rows.reshape((-1, 1)), 0, dtype=dtype if rounds else None)
        else:
            found = self._along(op, x, -1)
        wanted = (1,) * len(shape) if keep_dims else ()
        return found if found.shape == wanted else found.reshape(wanted)

    def _along(self, op: str, x: Handle, axis: int, reverse: bool = False, dtype: DType | None = None) -> LoadedTensor:
        return self._call(op, [x], self._axis_of(x, axis, op, "over"), dtype, bool(reverse))

    def _axis_of(self, x: Handle, axis: int, call: str, way: str = "along") -> int:
        """The number, from 0 on, of *axis* of *x*. Errors name tl.*call* and *way*: `along` or `over`."""
        n_axes = len(getattr(x, "shape", (1, 1)))
        try:
            at = as_integer(axis)
        except TypeError:
            at = n_axes
        if not -n_axes <= at < n_axes:
            raise KernelError(self._port.line(), f"tl.{call} {way} axis {axis!r}", f"an axis from 0 to {n_axes - 1}")
        return at % n_axes
