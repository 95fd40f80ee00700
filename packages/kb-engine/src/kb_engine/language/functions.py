"""The math functions of `tl`, by name. `kb_engine.language.math` implements their calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from kb_engine.language.rules.math_results import Argument
from kb_engine.program.language_base import LanguageBase
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_messages import DType, KernelError


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

    def exp(self, x: Handle) -> LoadedTensor:
        """e to the power of each element."""
        return self._call("exp", [x])

    def exp2(self, x: Handle) -> LoadedTensor:
        """2 to the power of each element."""
        return self._call("exp2", [x])

    def expm1(self, x: Handle) -> LoadedTensor:
        """`exp(x) - 1` of each element, precise near 0."""
        return self._call("expm1", [x])

    def log(self, x: Handle) -> LoadedTensor:
        """The natural logarithm of each element."""
        return self._call("log", [x])

    def log2(self, x: Handle) -> LoadedTensor:
        """The logarithm to the base 2 of each element."""
        return self._call("log2", [x])

    def log1p(self, x: Handle) -> LoadedTensor:
        """`log(1 + x)` of each element, precise near 0."""
        return self._call("log1p", [x])

    def sqrt(self, x: Handle) -> LoadedTensor:
        """The square root of each element."""
        return self._call("sqrt", [x])

    def rsqrt(self, x: Handle) -> LoadedTensor:
        """One over the square root of each element."""
        return self._call("rsqrt", [x])

    def sin(self, x: Handle) -> LoadedTensor:
        """The sine of each element, in radians."""
        return self._call("sin", [x])

    def cos(self, x: Handle) -> LoadedTensor:
        """The cosine of each element, in radians."""
        return self._call("cos", [x])

    def tanh(self, x: Handle) -> LoadedTensor:
        """The hyperbolic tangent of each element."""
        return self._call("tanh", [x])

    def erf(self, x: Handle) -> LoadedTensor:
        """The error function of each element."""
        return self._call("erf", [x])

    def sigmoid(self, x: Handle) -> LoadedTensor:
        """`1 / (1 + exp(-x))` of each element."""
        return self._call("sigmoid", [x])

    def pow(self, x: Argument, y: Argument) -> LoadedTensor:
        """x to the power of y, of floats."""
        return self._call("pow", [x, y])

    def abs(self, x: Handle) -> LoadedTensor:
        """The absolute value of each element."""
        return self._call("abs", [x])

    def sign(self, x: Handle) -> LoadedTensor:
        """-1, 0 or 1 for each element that is negative, zero or positive."""
        return self._call("sign", [x])

    def copysign(self, x: Argument, y: Argument) -> LoadedTensor:
        """The elements of x with the signs of the elements of y, of floats."""
        return self._call("copysign", [x, y])

    def floor(self, x: Handle) -> LoadedTensor:
        """The next whole number below each float."""
        return self._call("floor", [x])

    def ceil(self, x: Handle) -> LoadedTensor:
        """The next whole number above each float."""
        return self._call("ceil", [x])

    def rint(self, x: Handle) -> LoadedTensor:
        """The nearest whole number of each float; of two equally near, the even one."""
        return self._call("rint", [x])

    def trunc(self, x: Handle) -> LoadedTensor:
        """The next whole number of each float toward zero."""
        return self._call("trunc", [x])

    def round(self, x: Handle) -> LoadedTensor:
        """The nearest whole number of each float; of two equally near, the one away from zero."""
        return self._call("round", [x])

    def isnan(self, x: Handle) -> LoadedTensor:
        """Whether each float is NaN."""
        return self._call("isnan", [x])

    def isinf(self, x: Handle) -> LoadedTensor:
        """Whether each float is infinite."""
        return self._call("isinf", [x])

    def isfinite(self, x: Handle) -> LoadedTensor:
        """Whether each float is neither infinite nor NaN."""
        return self._call("isfinite", [x])

    def signbit(self, x: Handle) -> LoadedTensor:
        """Whether each float has a minus sign; -0.0 has one."""
        return self._call("signbit", [x])

    def maximum(self, x: Argument, y: Argument) -> LoadedTensor:
        """The larger element of each pair."""
        return self._call("maximum", [x, y])

    def minimum(self, x: Argument, y: Argument) -> LoadedTensor:
        """The smaller element of each pair."""
        return self._call("minimum", [x, y])

    def clamp(self, x: Argument, low: Argument, high: Argument) -> LoadedTensor:
        """The elements of *x*, limited to the range from *low* to *high*. NaN stays NaN."""
        return self._call("minimum", [self._call("maximum", [x, low]), high])

    def where(self, condition: Handle, x: Argument, y: Argument) -> LoadedTensor:
        """The elements of *x* where *condition* is not 0, and the elements of *y* elsewhere."""
        return self._call("where", [condition, x, y])

    def fma(self, x: Handle, y: Argument, z: Argument) -> LoadedTensor:
        """`x * y + z` in f32, rounded once to the dtype of the result."""
        return self._call("fma", [x, y, z])

    def tdiv(self, x: Argument, y: Argument) -> LoadedTensor:
        """The quotient of integers, rounded toward zero; 0 where y is 0."""
        return self._call("tdiv", [x, y])

    def trem(self, x: Argument, y: Argument) -> LoadedTensor:
        """The remainder of `tdiv`, with the sign of x; 0 where y is 0."""
        return self._call("trem", [x, y])

    def umulhi(self, x: Argument, y: Argument) -> LoadedTensor:
        """The upper half of the product of integers taken as unsigned, of the wider of the two dtypes."""
        bits = max(self._bits(each, "umulhi") for each in (x, y) if not isinstance(each, int))
        return self._call("umulhi", [x, y, bits])

    def popcount(self, x: Handle) -> LoadedTensor:
        """The number of bits that are 1, of integers."""
        return self._call("popcount", [x, self._bits(x, "popcount")])

    def clz(self, x: Handle) -> LoadedTensor:
        """The number of bits before the first that is 1, of integers."""
        return self._call("clz", [x, self._bits(x, "clz")])

    def ffs(self, x: Handle) -> LoadedTensor:
        """The place of the lowest bit that is 1, counted from 1, of integers; 0 where there is none."""
        return self._call("ffs", [x, self._bits(x, "ffs")])

    def brev(self, x: Handle) -> LoadedTensor:
        """The bits of integers in reverse order."""
        return self._call("brev", [x, self._bits(x, "brev")])

    def _bits(self, x: Argument, op: str) -> int:
        """The bits of an element of *x*. Raises KernelError unless *x* has integers."""
        dtype = x.integers if isinstance(x, HostValue) else getattr(x, "dtype", None)
        if not isinstance(dtype, DType) or dtype.is_float:
            raise KernelError(self._port.line(), f"tl.{op} of {dtype or type(x).__name__}", "integers")
        return 8 * dtype.nbytes


class SpecialFunctions(MathFunctions):
    """Each is one op, which computes in f32 and rounds once to the dtype of its result."""

    def tan(self, x: Handle) -> LoadedTensor:
        """The tangent of each element, in radians."""
        return self._call("tan", [x])

    def asin(self, x: Handle) -> LoadedTensor:
        """The arc sine of each element, in radians; NaN beyond 1."""
        return self._call("asin", [x])

    def acos(self, x: Handle) -> LoadedTensor:
        """The arc cosine of each element, in radians; NaN beyond 1."""
        return self._call("acos", [x])

    def atan(self, x: Handle) -> LoadedTensor:
        """The arc tangent of each element, in radians."""
        return self._call("atan", [x])

    def sinpi(self, x: Handle) -> LoadedTensor:
        """The sine of pi times each element."""
        return self._call("sinpi", [x])

    def cospi(self, x: Handle) -> LoadedTensor:
        """The cosine of pi times each element."""
        return self._call("cospi", [x])

    def sinh(self, x: Handle) -> LoadedTensor:
        """The hyperbolic sine of each element."""
        return self._call("sinh", [x])

    def cosh(self, x: Handle) -> LoadedTensor:
        """The hyperbolic cosine of each element."""
        return self._call("cosh", [x])

    def asinh(self, x: Handle) -> LoadedTensor:
        """The inverse hyperbolic sine of each element."""
        return self._call("asinh", [x])

    def acosh(self, x: Handle) -> LoadedTensor:
        """The inverse hyperbolic cosine of each element; NaN below 1."""
        return self._call("acosh", [x])

    def atanh(self, x: Handle) -> LoadedTensor:
        """The inverse hyperbolic tangent of each element; NaN beyond 1."""
        return self._call("atanh", [x])

    def exp10(self, x: Handle) -> LoadedTensor:
        """10 to the power of each element."""
        return self._call("exp10", [x])

    def log10(self, x: Handle) -> LoadedTensor:
        """The logarithm to the base 10 of each element."""
        return self._call("log10", [x])

    def cbrt(self, x: Handle) -> LoadedTensor:
        """The cube root of each element."""
        return self._call("cbrt", [x])

    def rcbrt(self, x: Handle) -> LoadedTensor:
        """One over the cube root of each element."""
        return self._call("rcbrt", [x])

    def erfc(self, x: Handle) -> LoadedTensor:
        """`1 - erf(x)` of each element, precise where it is small."""
        return self._call("erfc", [x])

    def erfcx(self, x: Handle) -> LoadedTensor:
        """`exp(x * x) * erfc(x)` of each element."""
        return self._call("erfcx", [x])

    def erfinv(self, x: Handle) -> LoadedTensor:
        """The number whose `erf` is x, for each element."""
        return self._call("erfinv", [x])

    def erfcinv(self, x: Handle) -> LoadedTensor:
        """The number whose `erfc` is x, for each element."""
        return self._call("erfcinv", [x])

    def normcdf(self, x: Handle) -> LoadedTensor:
        """The probability that a standard normal number is below each element."""
        return self._call("normcdf", [x])

    def normcdfinv(self, x: Handle) -> LoadedTensor:
        """The number whose `normcdf` is x, for each element."""
        return self._call("normcdfinv", [x])

    def lgamma(self, x: Handle) -> LoadedTensor:
        """The natural logarithm of the absolute value of the gamma function of each element."""
        return self._call("lgamma", [x])

    def tgamma(self, x: Handle) -> LoadedTensor:
        """The gamma function of each element."""
        return self._call("tgamma", [x])

    def j0(self, x: Handle) -> LoadedTensor:
        """The Bessel function of the first kind, of order 0, of each element."""
        return self._call("j0", [x])

    def j1(self, x: Handle) -> LoadedTensor:
        """The Bessel function of the first kind, of order 1, of each element."""
        return self._call("j1", [x])

    def y0(self, x: Handle) -> LoadedTensor:
        """The Bessel function of the second kind, of order 0, of each element."""
        return self._call("y0", [x])

    def y1(self, x: Handle) -> LoadedTensor:
        """The Bessel function of the second kind, of order 1, of each element."""
        return self._call("y1", [x])

    def cyl_bessel_i0(self, x: Handle) -> LoadedTensor:
        """The modified Bessel function of the first kind, of order 0, of each element."""
        return self._call("cyl_bessel_i0", [x])

    def cyl_bessel_i1(self, x: Handle) -> LoadedTensor:
        """The modified Bessel function of the first kind, of order 1, of each element."""
        return self._call("cyl_bessel_i1", [x])

    def logb(self, x: Handle) -> LoadedTensor:
        """The exponent of the power of two at or below the absolute value of each element."""
        return self._call("logb", [x])

    def atan2(self, y: Argument, x: Argument) -> LoadedTensor:
        """The angle of the point (y, x) to the x axis, in radians."""
        return self._call("atan2", [y, x])

    def hypot(self, x: Argument, y: Argument) -> LoadedTensor:
        """`sqrt(x * x + y * y)`, without overflow in between."""
        return self._call("hypot", [x, y])

    def rhypot(self, x: Argument, y: Argument) -> LoadedTensor:
        """One over `hypot(x, y)`."""
        return self._call("rhypot", [x, y])

    def fmod(self, x: Argument, y: Argument) -> LoadedTensor:
        """The remainder of the division of floats, with the sign of x. Exact."""
        return self._call("fmod", [x, y])

    def remainder(self, x: Argument, y: Argument) -> LoadedTensor:
        """x less the multiple of y that is nearest to it; of two equally near, the even multiple. Exact."""
        return self._call("remainder", [x, y])

    def fdim(self, x: Argument, y: Argument) -> LoadedTensor:
        """`x - y` where that is positive, else 0."""
        return self._call("fdim", [x, y])

    def nextafter(self, x: Argument, y: Argument) -> LoadedTensor:
        """The next f32 from x towards y."""
        return self._call("nextafter", [x, y])

    def ldexp(self, x: Argument, n: Argument) -> LoadedTensor:
        """x times 2 to the power of the whole number n."""
        return self._call("ldexp", [x, n])
