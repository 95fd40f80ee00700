"""Order, choice and bits

Functions that move elements of values in registers, or take their bytes as another type. They are part of a vector
program as all math is.
"""

import numpy as np
from tl_given import gives

COMMON = "LayoutFunctions"
_MOVE = "one op of a vector program, elementwise over the elements of the result"


@gives(lambda z: np.sort(z))
def tl_sort(tl, z, y):
    tl.store(y, tl.sort(tl.load(z)))


@gives(lambda z: -np.sort(-z)[:, :3], "two ops of a vector program, a sort and a move of elements")
def tl_topk(tl, z, y):
    tl.store(y, tl.topk(tl.load(z), 3))


@gives(lambda z: z[:, ::-1], _MOVE)
def tl_flip(tl, z, y):
    tl.store(y, tl.flip(tl.load(z)))


@gives(lambda row, x: np.broadcast_to(row, x.shape), _MOVE)
def tl_broadcast_to(tl, row, x, y):
    tl.store(y, tl.broadcast_to(tl.load(row), x.shape))


@gives(lambda x, ids: x[ids])
def tl_gather(tl, x, ids, y):
    rows = tl.broadcast_to(tl.expand_dims(tl.load(ids), 1), x.shape)
    tl.store(y, tl.gather(tl.load(x), rows, axis=0))


@gives(lambda ids: np.bincount(ids, minlength=5).astype(np.int32))
def tl_histogram(tl, ids, y):
    tl.store(y, tl.histogram(tl.load(ids), 5))


@gives(lambda x, z: np.stack([x, z], -1), _MOVE)
def tl_join(tl, x, z, y):
    tl.store(y, tl.join(tl.load(x), tl.load(z)))


@gives(lambda x: x[:, ::2] - x[:, 1::2], "two ops of a vector program, elementwise")
def tl_split(tl, x, y):
    even, odd = tl.split(tl.load(x).reshape(4, 4, 2))
    tl.store(y, even - odd)


@gives(lambda x, z: np.stack([x, z], -1).reshape(4, 16), _MOVE)
def tl_interleave(tl, x, z, y):
    tl.store(y, tl.interleave(tl.load(x), tl.load(z)))


@gives(lambda x, z: np.concatenate([x, z], 1), _MOVE)
def tl_cat(tl, x, z, y):
    tl.store(y, tl.cat(tl.load(x), tl.load(z), axis=1))


@gives(lambda z: np.abs(z), "none for a value in TCM; for a computed one, one op of a vector program, elementwise")
def tl_bitcast(tl, z, y):
    bits = tl.bitcast(tl.load(z), "i32") & 0x7FFFFFFF
    tl.store(y, tl.bitcast(bits, "f32"))
