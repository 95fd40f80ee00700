"""The machine's own

Calls that Triton does not have: whole tensors as one command, waits, values on which a kernel branches, and TCM by
hand.
"""

import numpy as np
from tl_given import NO_COMMAND, gives


@gives(
    np.matmul, "one command of DMA, FETCH, GEMM, MATH, STORE and DMA stages, tile by tile; the call returns at issue"
)
def tl_composite(tl, a, b, y):
    done = tl.composite("gemm", a, b, out=y)
    tl.wait(done)


@gives(np.exp, "the rest of the command's time; none if it is done")
def tl_wait(tl, z, y):
    done = tl.composite("exp", z, out=y)
    tl.wait(done)


@gives(lambda x: 2 * x, "the wait alone, and the command that the value needs")
def tl_materialize(tl, x, y):
    loaded = tl.load(x)
    largest = tl.materialize(tl.max(tl.ravel(loaded), axis=0))
    tl.store(y, loaded * 2 if largest[0] < 10 else loaded)


@gives(lambda x: x + 1, NO_COMMAND)
def tl_free(tl, x, y):
    loaded = tl.load(x)
    tl.store(y, loaded + 1)
    tl.free(loaded)
