"""Atomics

One command for each rectangle of memory, in which no other program comes between reading and writing.
"""

import numpy as np
from tl_given import gives

COMMON = "AtomicOps"
_COST = "one command, whose bytes travel to the memory and are read and written there; a kept result adds a DMA read"


@gives(lambda x: x.sum(axis=0, keepdims=True), _COST)
def tl_atomic_add(tl, x, y):
    tl.store(y, tl.zeros((1, 8), "f32"))
    for number in range(4):
        tl.atomic_add(y, tl.load(x[number : number + 1, :]))


@gives(np.maximum, _COST)
def tl_atomic_max(tl, i, j, y):
    tl.store(y, tl.load(i))
    tl.atomic_max(y, tl.load(j), mask=tl.arange(0, 8) < 8)


@gives(np.minimum, _COST)
def tl_atomic_min(tl, i, j, y):
    tl.store(y, tl.load(i))
    tl.atomic_min(y, tl.load(j))


@gives(np.bitwise_and, _COST)
def tl_atomic_and(tl, i, j, y):
    tl.store(y, tl.load(i))
    tl.atomic_and(y, tl.load(j))


@gives(np.bitwise_or, _COST)
def tl_atomic_or(tl, i, j, y):
    tl.store(y, tl.load(i))
    tl.atomic_or(y, tl.load(j))


@gives(np.bitwise_xor, _COST)
def tl_atomic_xor(tl, i, j, y):
    tl.store(y, tl.load(i))
    tl.atomic_xor(y, tl.load(j))


@gives(lambda i: 2 * i, _COST)
def tl_atomic_xchg(tl, i, y):
    tl.store(y, tl.load(i))
    before = tl.atomic_xchg(y, 0)
    tl.store(y, before * 2)


@gives(lambda j: np.where(j == 3, 9, j), _COST)
def tl_atomic_cas(tl, j, y):
    tl.store(y, tl.load(j))
    tl.atomic_cas(y, 3, 9)
