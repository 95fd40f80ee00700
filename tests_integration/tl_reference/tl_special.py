"""Further functions of floats

Trigonometric, hyperbolic and special functions, as libraries of accelerators have them. Each is one op, which computes
in f32 and rounds once to the dtype of the result.
"""

import math
from statistics import NormalDist

import numpy as np
from tl_given import gives

_TURNS = np.linspace(0, 2 * np.pi, 64, endpoint=False)


def _bessel_j(order):
    return np.vectorize(lambda x: np.cos(order * _TURNS - x * np.sin(_TURNS)).mean())


def _bessel_i(order):
    return np.vectorize(lambda x: (np.exp(x * np.cos(_TURNS)) * np.cos(order * _TURNS)).mean())


@gives(np.tan)
def tl_tan(tl, z, y):
    tl.store(y, tl.tan(tl.load(z)))


@gives(lambda z: np.arcsin(z / 4))
def tl_asin(tl, z, y):
    tl.store(y, tl.asin(tl.load(z) / 4))


@gives(lambda z: np.arccos(z / 4))
def tl_acos(tl, z, y):
    tl.store(y, tl.acos(tl.load(z) / 4))


@gives(np.arctan)
def tl_atan(tl, z, y):
    tl.store(y, tl.atan(tl.load(z)))


@gives(np.arctan2)
def tl_atan2(tl, x, z, y):
    tl.store(y, tl.atan2(tl.load(x), tl.load(z)))


@gives(lambda z: np.sin(np.pi * z))
def tl_sinpi(tl, z, y):
    tl.store(y, tl.sinpi(tl.load(z)))


@gives(lambda z: np.cos(np.pi * z))
def tl_cospi(tl, z, y):
    tl.store(y, tl.cospi(tl.load(z)))


@gives(np.sinh)
def tl_sinh(tl, z, y):
    tl.store(y, tl.sinh(tl.load(z)))


@gives(np.cosh)
def tl_cosh(tl, z, y):
    tl.store(y, tl.cosh(tl.load(z)))


@gives(np.arcsinh)
def tl_asinh(tl, z, y):
    tl.store(y, tl.asinh(tl.load(z)))


@gives(lambda x: np.arccosh(x + 1))
def tl_acosh(tl, x, y):
    tl.store(y, tl.acosh(tl.load(x) + 1))


@gives(lambda z: np.arctanh(z / 4))
def tl_atanh(tl, z, y):
    tl.store(y, tl.atanh(tl.load(z) / 4))


@gives(lambda z: 10**z)
def tl_exp10(tl, z, y):
    tl.store(y, tl.exp10(tl.load(z)))


@gives(np.log10)
def tl_log10(tl, x, y):
    tl.store(y, tl.log10(tl.load(x)))


@gives(np.cbrt)
def tl_cbrt(tl, z, y):
    tl.store(y, tl.cbrt(tl.load(z)))


@gives(lambda z: 1 / np.cbrt(z))
def tl_rcbrt(tl, z, y):
    tl.store(y, tl.rcbrt(tl.load(z)))


@gives(np.hypot)
def tl_hypot(tl, x, z, y):
    tl.store(y, tl.hypot(tl.load(x), tl.load(z)))


@gives(lambda x, z: 1 / np.hypot(x, z))
def tl_rhypot(tl, x, z, y):
    tl.store(y, tl.rhypot(tl.load(x), tl.load(z)))


@gives(np.fmod)
def tl_fmod(tl, z, x, y):
    tl.store(y, tl.fmod(tl.load(z), tl.load(x)))


@gives(np.vectorize(math.remainder))
def tl_remainder(tl, z, x, y):
    tl.store(y, tl.remainder(tl.load(z), tl.load(x)))


@gives(lambda x, z: np.maximum(x - z, 0))
def tl_fdim(tl, x, z, y):
    tl.store(y, tl.fdim(tl.load(x), tl.load(z)))


@gives(lambda x: np.nextafter(x.astype(np.float32), np.float32(9)) - x)
def tl_nextafter(tl, x, y):
    tl.store(y, tl.nextafter(tl.load(x), 9.0) - tl.load(x))


@gives(lambda x, i: np.ldexp(x, i // 8))
def tl_ldexp(tl, x, i, y):
    tl.store(y, tl.ldexp(tl.load(x), tl.load(i) // 8))


@gives(lambda z: np.floor(np.log2(np.abs(z))))
def tl_logb(tl, z, y):
    tl.store(y, tl.logb(tl.load(z)))


@gives(np.vectorize(math.erfc))
def tl_erfc(tl, z, y):
    tl.store(y, tl.erfc(tl.load(z)))


@gives(np.vectorize(lambda z: math.exp(z * z) * math.erfc(z)))
def tl_erfcx(tl, z, y):
    tl.store(y, tl.erfcx(tl.load(z)))


@gives(lambda z: z / 4)
def tl_erfinv(tl, z, y):
    tl.store(y, tl.erf(tl.erfinv(tl.load(z) / 4)))


@gives(lambda x: x / 2)
def tl_erfcinv(tl, x, y):
    tl.store(y, tl.erfc(tl.erfcinv(tl.load(x) / 2)))


@gives(np.vectorize(NormalDist().cdf))
def tl_normcdf(tl, z, y):
    tl.store(y, tl.normcdf(tl.load(z)))


@gives(np.vectorize(lambda x: NormalDist().inv_cdf(x / 4)))
def tl_normcdfinv(tl, x, y):
    tl.store(y, tl.normcdfinv(tl.load(x) / 4))


@gives(np.vectorize(math.lgamma))
def tl_lgamma(tl, x, y):
    tl.store(y, tl.lgamma(tl.load(x)))


@gives(np.vectorize(math.gamma))
def tl_tgamma(tl, x, y):
    tl.store(y, tl.tgamma(tl.load(x)))


@gives(_bessel_j(0))
def tl_j0(tl, z, y):
    tl.store(y, tl.j0(tl.load(z)))


@gives(_bessel_j(1))
def tl_j1(tl, z, y):
    tl.store(y, tl.j1(tl.load(z)))


@gives(_bessel_j(3))
def tl_jn(tl, z, y):
    tl.store(y, tl.jn(3, tl.load(z)))


@gives(lambda x: 2 / (np.pi * x))
def tl_yn(tl, x, y):
    r = tl.load(x)
    tl.store(y, tl.jn(3, r) * tl.yn(2, r) - tl.jn(2, r) * tl.yn(3, r))


@gives(lambda x: 2 / (np.pi * x))
def tl_y0(tl, x, y):
    r = tl.load(x)
    tl.store(y, tl.j1(r) * tl.y0(r) - tl.j0(r) * tl.y1(r))


@gives(lambda x: 2 / (np.pi * x))
def tl_y1(tl, x, y):
    r = tl.load(x)
    tl.store(y, tl.j1(r) * tl.y0(r) - tl.j0(r) * tl.y1(r))


@gives(_bessel_i(0))
def tl_cyl_bessel_i0(tl, z, y):
    tl.store(y, tl.cyl_bessel_i0(tl.load(z)))


@gives(_bessel_i(1))
def tl_cyl_bessel_i1(tl, z, y):
    tl.store(y, tl.cyl_bessel_i1(tl.load(z)))
