"""Dot

Products of matrices in TCM. Whole tensors are multiplied by [`tl.composite`](#tlcomposite).
"""

import numpy as np
from tl_given import NO_COMMAND, gives


@gives(
    np.matmul, "one command of FETCH, GEMM and STORE; with *acc* no STORE, and no FETCH of a sum that is in registers"
)
def tl_dot(tl, a, b, y):
    acc = 0
    for k in range(0, 32, 16):
        acc = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16, :]), acc)
    tl.store(y, acc)


@gives(lambda a: a @ a.T, NO_COMMAND)
def tl_trans(tl, a, y):
    rows = tl.load(a)
    tl.store(y, tl.dot(rows, tl.trans(rows)))
