"""Further functions of floats, as mathematical libraries of accelerators have them."""

from __future__ import annotations

from kb_engine.language.functions import MathFunctions
from kb_engine.language.rules.math_results import Argument
from kb_engine.program.values.handles import Handle, LoadedTensor


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
        """What a division of floats leaves of x, with the sign of x. Exact."""
        return self._call("fmod", [x, y])

    def remainder(self, x: Argument, y: Argument) -> LoadedTensor:
        """x less the multiple of y that is nearest to it, of two the even one. Exact."""
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
