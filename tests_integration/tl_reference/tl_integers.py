"""Integers

Functions of integers. Loaded integers are known, and so are the results of integer arithmetic on them: a kernel may use
them as indices, bounds and conditions. Where their bytes are needed, the arithmetic is part of a vector program as all
math is.
"""

import numpy as np
from tl_given import gives


@gives(lambda i, j: np.trunc(i / j).astype(np.int32))
def tl_tdiv(tl, i, j, y):
    tl.store(y, tl.tdiv(tl.load(i), tl.load(j)))


@gives(lambda i, j: np.fmod(i, j))
def tl_trem(tl, i, j, y):
    tl.store(y, tl.trem(tl.load(i), tl.load(j)))


@gives(lambda i, j: ((i.astype(np.uint32).astype(np.uint64) * j.astype(np.uint32)) >> np.uint64(32)).astype(np.int32))
def tl_umulhi(tl, i, j, y):
    tl.store(y, tl.umulhi(tl.load(i), tl.load(j)))


@gives(np.vectorize(lambda number: (int(number) % 2**32).bit_count()))
def tl_popcount(tl, i, y):
    tl.store(y, tl.popcount(tl.load(i)))


@gives(np.vectorize(lambda number: 32 - (int(number) % 2**32).bit_length()))
def tl_clz(tl, i, y):
    tl.store(y, tl.clz(tl.load(i)))


@gives(np.vectorize(lambda number: (int(number) & -int(number)).bit_length()))
def tl_ffs(tl, i, y):
    tl.store(y, tl.ffs(tl.load(i)))


@gives(lambda i: np.vectorize(lambda word: int(f"{word:032b}"[::-1], 2), [np.uint32])(i.view(np.uint32)).view(np.int32))
def tl_brev(tl, i, y):
    tl.store(y, tl.brev(tl.load(i)))
