"""Math

The [cost of math](#cost-of-math) is described above.
"""

from math import erf

import numpy as np
from tl_given import gives

COMMON = "MathOps"


@gives(np.exp)
def tl_exp(tl, z, y):
    tl.store(y, tl.exp(tl.load(z)))


@gives(np.exp2)
def tl_exp2(tl, z, y):
    tl.store(y, tl.exp2(tl.load(z)))


@gives(np.expm1)
def tl_expm1(tl, z, y):
    tl.store(y, tl.expm1(tl.load(z)))


@gives(np.log)
def tl_log(tl, x, y):
    tl.store(y, tl.log(tl.load(x)))


@gives(np.log2)
def tl_log2(tl, x, y):
    tl.store(y, tl.log2(tl.load(x)))


@gives(np.log1p)
def tl_log1p(tl, x, y):
    tl.store(y, tl.log1p(tl.load(x)))


@gives(np.sqrt)
def tl_sqrt(tl, x, y):
    tl.store(y, tl.sqrt(tl.load(x)))


@gives(lambda x: 1 / np.sqrt(x))
def tl_rsqrt(tl, x, y):
    tl.store(y, tl.rsqrt(tl.load(x)))


@gives(np.sin)
def tl_sin(tl, z, y):
    tl.store(y, tl.sin(tl.load(z)))


@gives(np.cos)
def tl_cos(tl, z, y):
    tl.store(y, tl.cos(tl.load(z)))


@gives(np.tanh)
def tl_tanh(tl, z, y):
    tl.store(y, tl.tanh(tl.load(z)))


@gives(np.vectorize(erf))
def tl_erf(tl, z, y):
    tl.store(y, tl.erf(tl.load(z)))


@gives(lambda z: 1 / (1 + np.exp(-z)))
def tl_sigmoid(tl, z, y):
    tl.store(y, tl.sigmoid(tl.load(z)))


@gives(np.power)
def tl_pow(tl, x, z, y):
    tl.store(y, tl.pow(tl.load(x), tl.load(z)))


@gives(np.abs)
def tl_abs(tl, z, y):
    tl.store(y, tl.abs(tl.load(z)))


@gives(np.sign)
def tl_sign(tl, z, y):
    tl.store(y, tl.sign(tl.load(z)))


@gives(np.copysign)
def tl_copysign(tl, x, z, y):
    tl.store(y, tl.copysign(tl.load(x), tl.load(z)))


@gives(np.floor)
def tl_floor(tl, z, y):
    tl.store(y, tl.floor(tl.load(z)))


@gives(np.ceil)
def tl_ceil(tl, z, y):
    tl.store(y, tl.ceil(tl.load(z)))


@gives(np.rint)
def tl_rint(tl, z, y):
    tl.store(y, tl.rint(tl.load(z)))


@gives(lambda z: np.trunc(z + np.copysign(0.5, z)))
def tl_round(tl, z, y):
    tl.store(y, tl.round(tl.load(z)))


@gives(np.trunc)
def tl_trunc(tl, z, y):
    tl.store(y, tl.trunc(tl.load(z)))


@gives(np.isnan)
def tl_isnan(tl, odd, y):
    tl.store(y, tl.isnan(tl.load(odd)))


@gives(np.isinf)
def tl_isinf(tl, odd, y):
    tl.store(y, tl.isinf(tl.load(odd)))


@gives(np.isfinite)
def tl_isfinite(tl, odd, y):
    tl.store(y, tl.isfinite(tl.load(odd)))


@gives(np.signbit)
def tl_signbit(tl, z, y):
    tl.store(y, tl.signbit(tl.load(z)))


@gives(lambda z: np.clip(z, -0.5, 0.5), "two ops of a vector program, elementwise")
def tl_clamp(tl, z, y):
    tl.store(y, tl.clamp(tl.load(z), -0.5, 0.5))


@gives(lambda z: np.maximum(z, 0))
def tl_maximum(tl, z, y):
    tl.store(y, tl.maximum(tl.load(z), 0.0))


@gives(np.minimum)
def tl_minimum(tl, x, z, y):
    tl.store(y, tl.minimum(tl.load(x), tl.load(z)))


@gives(lambda x, z: np.where(z > 0, x, -1))
def tl_where(tl, x, z, y):
    tl.store(y, tl.where(tl.load(z) > 0, tl.load(x), -1.0))


@gives(lambda x, z: x * z + 0.5)
def tl_fma(tl, x, z, y):
    tl.store(y, tl.fma(tl.load(x), tl.load(z), 0.5))


@gives(lambda x: np.full(x.shape, 0.5))
def tl_full(tl, x, y):
    tl.store(y, tl.full(x.shape, 0.5, "f32"))


@gives(lambda x: np.zeros(x.shape))
def tl_zeros(tl, x, y):
    tl.store(y, tl.zeros(x.shape, "f32"))
