"""Memory

Loads copy from memory to TCM, and stores copy from TCM to memory. A transfer of one rectangle is one piece; other
elements are several pieces of one command, and each further piece costs the DMA its `piece_ns`. A store also issues the
vector program that its value is waiting for.
"""

import numpy as np
from tl_given import gives

_READ = "one DMA read; the call returns when the bytes are there"
_WRITE = "one DMA write, after the vector program or the drain that makes the value; returns when the bytes are written"


@gives(lambda x, ids: x[ids] + 1, _READ)
def tl_load(tl, x, ids, y):
    chosen = tl.load(ids)  # loaded integers are known, and may be indices
    rows = tl.load(x[chosen])  # gathers rows: a piece for each
    tl.store(y, rows + 1)


@gives(lambda x, z: x * z, "one DMA read; the call returns when it is issued")
def tl_load_async(tl, x, z, y):
    first = tl.load_async(x)
    second = tl.load_async(z)  # both are on their way
    tl.store(y, first * second)  # waits for both


@gives(lambda x: 2 * x, "one DMA write; the call returns when it is issued")
def tl_store_async(tl, x, y):
    loaded = tl.load(x)
    stored = tl.store_async(y[:2, :], loaded[:2, :] * 2)
    rest = loaded[2:, :] * 2  # while the store is on its way
    tl.store(y[2:, :], rest)
    tl.wait(stored)


@gives(lambda x: 2 * x, "no time of its own; the loads that it issues early take their own time")
def tl_ahead(tl, x, y):
    rows = [slice(number, number + 1) for number in range(x.shape[0])]
    loads = (tl.load_async(x[row, :]) for row in rows)
    for row, part in zip(rows, tl.ahead(loads), strict=True):
        tl.store(y[row, :], part * 2)


@gives(lambda x: np.where(np.arange(4)[:, None] < 3, -x, 7), _WRITE)
def tl_store(tl, x, y):
    tl.store(y, tl.full((4, 8), 7.0, "f32"))
    mask = (tl.arange(0, 4) < 3)[:, None]
    tl.store(y, -tl.load(x), mask)
