"""Reductions and scans

Functions along an axis of a value of any rank. They are part of a vector program as all math is.
"""

import numpy as np
from tl_given import gives

COMMON = "AxisFunctions"


@gives(lambda z: z.sum(axis=1, keepdims=True))
def tl_sum(tl, z, y):
    tl.store(y, tl.sum(tl.load(z), axis=1))


@gives(lambda x: x.prod(axis=0))
def tl_prod(tl, x, y):
    tl.store(y, tl.prod(tl.load(x), axis=0, keep_dims=False))


@gives(lambda z: z - z.max(axis=1, keepdims=True))
def tl_max(tl, z, y):
    loaded = tl.load(z)
    tl.store(y, loaded - tl.max(loaded, axis=1))


@gives(lambda z: z - z.min())
def tl_min(tl, z, y):
    loaded = tl.load(z)
    tl.store(y, loaded - tl.min(loaded))


@gives(lambda z: z.argmax(axis=1, keepdims=True))
def tl_argmax(tl, z, y):
    tl.store(y, tl.argmax(tl.load(z), axis=1))


@gives(lambda cube: cube.argmin(axis=1, keepdims=True))
def tl_argmin(tl, cube, y):
    tl.store(y, tl.argmin(tl.load(cube), axis=1))


@gives(lambda i: np.bitwise_and.reduce(i, axis=1, keepdims=True))
def tl_reduce_and(tl, i, y):
    tl.store(y, tl.reduce_and(tl.load(i), axis=1))


@gives(lambda i: np.bitwise_or.reduce(i, axis=1, keepdims=True))
def tl_reduce_or(tl, i, y):
    tl.store(y, tl.reduce_or(tl.load(i), axis=1))


@gives(lambda i: np.bitwise_xor.reduce(i, axis=1, keepdims=True))
def tl_xor_sum(tl, i, y):
    tl.store(y, tl.xor_sum(tl.load(i), axis=1))


@gives(lambda z: np.cumsum(z, axis=1))
def tl_cumsum(tl, z, y):
    tl.store(y, tl.cumsum(tl.load(z), axis=1))


@gives(lambda x: np.cumprod(x[::-1], axis=0)[::-1])
def tl_cumprod(tl, x, y):
    tl.store(y, tl.cumprod(tl.load(x), axis=0, reverse=True))


@gives(lambda z: np.maximum.accumulate(z, axis=1))
def tl_cummax(tl, z, y):
    tl.store(y, tl.cummax(tl.load(z), axis=1))


@gives(lambda z: np.minimum.accumulate(z, axis=1))
def tl_cummin(tl, z, y):
    tl.store(y, tl.cummin(tl.load(z), axis=1))
