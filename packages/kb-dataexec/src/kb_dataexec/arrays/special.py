"""Special functions that numpy lacks. They compute in f64, and round to the type of their argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.polynomial.chebyshev import chebval

from kb_dataexec.arrays import special_series as series
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.erf import erf

_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Source: Abramowitz and Stegun, "Handbook of mathematical functions", 6.1.41."""
_FROM: Final = 10
"""From here on Stirling's series of seven terms has the precision of f64."""
_NEAR: Final = 8
"""Up to here Bessel functions are series in x, and beyond in 1 / x."""
_HALLEY_STEPS: Final = 4
_MILLER: Final = 160
"""Miller's algorithm begins the root of 160 times the order above it. Source: measured, for the precision of f64."""
_MOST_ORDER: Final = 1 << 20
"""The largest order of a Bessel function, which takes a step for each order. Source: assumed."""
_LARGE: Final = 1e100
"""Miller's algorithm divides by terms beyond this size. A step multiplies a term by less than 1e53."""


def in_f64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Returns *function* with its argument cast to f64, and its result rounded to the type of the argument."""

    def rounded(x: Array) -> Array:
        result: Array = function(x.astype(np.float64)).astype(x.dtype)
        return result

    return rounded


def _erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x)."""
    size = np.abs(x)
    t = 2 / (2 + size)
    right = t * chebval(2 * t - 1, series.ERFCX)
    found: Array = np.where(x < 0, 2 * np.exp(x * x) - right, right)
    return found


def _erfc(x: Array) -> Array:
    """1 - erf(x), precise where it is small."""
    far = np.exp(-x * x) * _erfcx(np.maximum(x, 0))
    found: Array = np.where(x > 0.5, far, 1 - erf(x))
    return found


def _erfinv(y: Array) -> Array:
    """The x whose erf is y, by Halley's method from Winitzki's approximation; infinite at -1 and 1, NaN beyond."""
    size = np.abs(y)
    log = np.log((1 - size) * (1 + size))
    middle = 2 / (np.pi * 0.147) + log / 2
    x = np.sqrt(np.sqrt(middle * middle - log / 0.147) - middle)
    for _ in range(_HALLEY_STEPS):
        off = np.where(size < 0.5, erf(x) - size, (1 - size) - _erfc(x))
        x = _halley(x, off)
    found: Array = np.where(size < 1, np.copysign(x, y), np.where(size == 1, np.copysign(np.inf, y), np.nan))
    return found


def _erfcinv(y: Array) -> Array:
    """The x whose erfc is y, from 0 to 2."""
    small = np.where((y > 0) & (y < 0.5), y, 0.25)
    root = np.sqrt(-np.log(small))
    x = np.sqrt(-np.log(small * root * math.sqrt(np.pi)))
    for _ in range(_HALLEY_STEPS):
        x = _halley(x, small - _erfc(x))
    found: Array = np.where((y > 0) & (y < 0.5), x, _erfinv(1 - y))
    return found


def _halley(x: Array, off: Array) -> Array:
    """A step of Halley's method for erf, which is *off* from its aim at *x*."""
    step = off / (2 / math.sqrt(np.pi) * np.exp(-x * x))
    better: Array = x - step / (1 + x * step)
    return better


def _lgamma(x: Array) -> Array:
    """log(|gamma(x)|), by Stirling's series, and for x < 0.5 by reflection."""
    right = np.where(x < 0.5, 1 - x, x)
    product, shifted = np.ones_like(right), right
    for _ in range(_FROM):
        is_small = shifted < _FROM
        product = np.where(is_small, product * shifted, product)
        shifted = np.where(is_small, shifted + 1, shifted)
    term, tail = 1 / shifted, np.zeros_like(shifted)
    for number, factor in enumerate(_STIRLING):
        tail = tail + factor * term ** (2 * number + 1)
    log = (shifted - 0.5) * np.log(shifted) - shifted + 0.5 * math.log(2 * np.pi) + tail - np.log(product)
    log = np.where(np.isinf(right), np.inf, log)
    sine = np.abs(sinpi(x))
    left = np.where(np.isinf(x), np.inf, np.log(np.pi / sine) - log)
    found: Array = np.where(x < 0.5, left, np.where((x == 1) | (x == 2), 0, log))
    return found


def _gamma(x: Array) -> Array:
    size = np.exp(_lgamma(x))
    is_pole = (x < 0) & (np.floor(x) == x)
    signed = np.where(x < 0, np.copysign(size, sinpi(x)), np.copysign(size, x))
    found: Array = np.where(is_pole, np.nan, signed)
    return found


def sinpi(x: Array) -> Array:
    """sin(pi x), exact where x is a half of a whole number."""
    turn = x - 2 * np.rint(x / 2)
    turn = np.where(np.abs(turn) > 0.5, np.copysign(1, turn) - turn, turn)
    found: Array = np.sin(np.pi * turn)
    return found


def cospi(x: Array) -> Array:
    """cos(pi x), exact where x is a half of a whole number."""
    turn = np.abs(x - 2 * np.rint(x / 2))
    found: Array = np.sin(np.pi * (0.5 - turn))
    return found


def _bessel_j(order: int, x: Array) -> Array:
    size = np.abs(x)
    u = np.minimum(size, _NEAR) ** 2 / 32 - 1
    near = chebval(u, series.J1) * size if order else chebval(u, series.J0)
    p, q, phase = _far(order, np.maximum(size, _NEAR))
    far = np.sqrt(2 / (np.pi * np.maximum(size, _NEAR))) * (p * np.cos(phase) - q * np.sin(phase))
    found = np.where(np.isinf(size), 0, np.where(size > _NEAR, far, near))
    return np.copysign(1, x) * found if order else found


def _bessel_y(order: int, x: Array) -> Array:
    """NaN for x < 0, -infinity for 0."""
    size = np.maximum(x, 0)
    small = np.minimum(size, _NEAR)
    u = small**2 / 32 - 1
    if order:
        log = np.where(small > 0, np.log(small) * _bessel_j(1, small), 0)
        near = chebval(u, series.Y1) * small + 2 / np.pi * (log - 1 / small)
    else:
        near = chebval(u, series.Y0) + 2 / np.pi * np.log(small) * _bessel_j(0, small)
    p, q, phase = _far(order, np.maximum(size, _NEAR))
    far = np.sqrt(2 / (np.pi * np.maximum(size, _NEAR))) * (p * np.sin(phase) + q * np.cos(phase))
    found: Array = np.where(x > _NEAR, np.where(np.isinf(x), 0, far), np.where(x < 0, np.nan, near))
    return np.where(np.isnan(x), np.nan, found)


def _far(order: int, x: Array) -> tuple[Array, Array, Array]:
    """The amplitudes and the phase of Bessel functions of x >= 8."""
    u = 128 / (x * x) - 1
    p, q = (series.P1, series.Q1) if order else (series.P0, series.Q0)
    return chebval(u, p), chebval(u, q) * _NEAR / x, x - (2 * order + 1) * np.pi / 4


def _bessel_i(order: int, x: Array) -> Array:
    size = np.abs(x)
    small, large = np.minimum(size, _NEAR), np.maximum(size, _NEAR)
    near = chebval(small / 4 - 1, series.I1 if order else series.I0) * (small if order else 1)
    far = chebval(16 / large - 1, series.I1_FAR if order else series.I0_FAR) / np.sqrt(large)
    found = np.exp(size) * np.where(size > _NEAR, np.where(np.isinf(size), 1, far), near)
    return np.copysign(1, x) * found if order else found


UNARY: Final[dict[str, Callable[[Array], Array]]] = {
    name: in_f64(function)
    for name, function in {
        "erfc": _erfc,
        "erfcx": _erfcx,
        "erfinv": _erfinv,
        "erfcinv": _erfcinv,
        "normcdf": lambda x: _erfc(-x / math.sqrt(2)) / 2,
        "normcdfinv": lambda p: -math.sqrt(2) * _erfcinv(2 * p),
        "lgamma": _lgamma,
        "tgamma": _gamma,
        "sinpi": sinpi,
        "cospi": cospi,
        "exp10": lambda x: np.power(10.0, x),
        "j0": lambda x: _bessel_j(0, x),
        "j1": lambda x: _bessel_j(1, x),
        "y0": lambda x: _bessel_y(0, x),
        "y1": lambda x: _bessel_y(1, x),
        "cyl_bessel_i0": lambda x: _bessel_i(0, x),
        "cyl_bessel_i1": lambda x: _bessel_i(1, x),
    }.items()
}
"""Functions of one argument, by their names in MATH records."""


def bessel_jn(order: Array, x: Array) -> Array:
    """The Bessel function of the first kind of the whole number *order*; NaN for an order below 0 or beyond 2^20.

    Source: the recurrence of Abramowitz and Stegun, 9.1.27, upwards from the orders 0 and 1 where |x| is larger than
    the order, and downwards by Miller's algorithm (9.12) elsewhere.
    """
    n, wide = _orders(order, x)
    size = np.abs(wide)
    is_far = (size > n) & np.isfinite(size) & (n >= 0)
    above = np.where(is_far, size, 1.0)
    up = _upwards(_bessel_j(0, above), _bessel_j(1, above), np.where(is_far, n, 0), above)
    is_near = (size <= n) & (size > 0)
    below = _downwards(np.where(is_near, n, 0), np.where(is_near, size, 1.0))
    found = np.where(is_near, below, np.where(is_far, up, np.where((n == 0) & (size == 0), 1.0, 0.0)))
    found = np.where((wide < 0) & (n % 2 == 1), -found, found)
    return np.where(np.isnan(wide) | (n < 0), np.nan, found).astype(x.dtype)


def bessel_yn(order: Array, x: Array) -> Array:
    """The Bessel function of the second kind of the whole number *order*; NaN for an order or an x below 0.

    It is -infinity at 0, and NaN for an order beyond 2^20. Source: the recurrence of Abramowitz and Stegun, 9.1.27.
    """
    n, wide = _orders(order, x)
    is_inside = (wide > 0) & np.isfinite(wide) & (n >= 0)
    inner = np.where(is_inside, wide, 1.0)
    found = _upwards(_bessel_y(0, inner), _bessel_y(1, inner), np.where(is_inside, n, 0), inner)
    edge = np.where(wide == 0, -np.inf, np.where(np.isposinf(wide), 0.0, np.nan))
    return np.where(n >= 0, np.where(is_inside, found, edge), np.nan).astype(x.dtype)


def _orders(order: Array, x: Array) -> tuple[Array, Array]:
    """The whole orders and the arguments in f64, of one shape. An order below 0, beyond 2^20, or NaN is -1."""
    wide = order.astype(np.float64)
    n = np.where((wide >= 0) & (wide <= _MOST_ORDER), np.trunc(wide), -1.0)
    orders, arguments = np.broadcast_arrays(n, x.astype(np.float64))
    return orders, arguments


def _upwards(zero: Array, one: Array, n: Array, x: Array) -> Array:
    """The function of order *n* of a recurrence of Bessel functions whose orders 0 and 1 are *zero* and *one*."""
    before, found = zero, np.where(n == 0, zero, one)
    for order in range(1, int(n.max(initial=0))):
        goes_on = (order < n) & np.isfinite(found)
        before, found = np.where(goes_on, found, before), np.where(goes_on, 2 * order / x * found - before, found)
    return found


def _downwards(n: Array, x: Array) -> Array:
    """J of order *n* at 0 < x <= n: the recurrence from an order far above, divided by J0 + 2 J2 + 2 J4 + ... = 1."""
    most = n.max(initial=0)
    start = 2 * int((most + math.sqrt(_MILLER * (most + 1))) / 2 + 1)
    above, here = np.zeros_like(x), np.ones_like(x)
    found, total = np.where(n == start, here, 0.0), np.zeros_like(x)
    for order in range(start, 0, -1):
        total = total + 2 * here * (order % 2 == 0)
        above, here = here, 2 * order / x * here - above
        scale = np.where(np.abs(here) > _LARGE, np.abs(here), 1.0)
        above, here, found, total = above / scale, here / scale, found / scale, total / scale
        found = np.where(n == order - 1, here, found)
    result: Array = found / (total + here)
    return result


def rounded_half_away(x: Array) -> Array:
    """The nearest whole number; of two, the number away from zero."""
    whole = np.trunc(x)
    found: Array = whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(x.dtype)
    return np.where(np.isfinite(x), found, x)


def ieee_remainder(x: Array, y: Array) -> Array:
    """x - n y with the whole number n that is nearest to x / y, the even one of two. Exact."""
    size, divisor = np.abs(x.astype(np.float64)), np.abs(y.astype(np.float64))
    rest = np.fmod(size, 2 * divisor)
    rest = np.where(rest > 0.5 * divisor, rest - divisor, rest)
    rest = np.where((rest >= 0.5 * divisor) & (np.fmod(size, 2 * divisor) > divisor), rest - divisor, rest)
    found: Array = np.where(np.isinf(divisor) & np.isfinite(size), x, np.where(np.signbit(x), -rest, rest))
    return found.astype(x.dtype)


def exponent(x: Array) -> Array:
    """The largest n with 2^n <= |x|; -infinity for 0."""
    found = (np.frexp(x)[1] - 1).astype(x.dtype)
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), found, np.abs(x))).astype(x.dtype)


def scaled_by_power(x: Array, n: Array) -> Array:
    """x 2^n, rounded once. The whole part of *n* counts."""
    found: Array = np.ldexp(x, np.clip(np.nan_to_num(np.trunc(n)), -1000, 1000).astype(np.int32))
    return found


def positive_difference(x: Array, y: Array) -> Array:
    """x - y where that is positive, else 0; NaN where either is NaN."""
    found: Array = np.where(x <= y, np.zeros((), x.dtype), x - y)
    return found
