"""Known integers

Integers that are known while the kernel runs: the result of `tl.arange`, and of integer operators and comparisons on
it. They are no values in TCM: operators on them take no time, for any size. A comparison gives a mask.
"""

import numpy as np
from tl_given import NO_COMMAND, gives


@gives(lambda x: np.tril(x), NO_COMMAND)
def known_index(tl, x, y):
    below = tl.arange(0, 4)[:, None] >= tl.arange(0, 8)[None, :]
    tl.store(y, tl.load(x, below))


@gives(lambda x: np.where(np.arange(4)[:, None] < 2, x, 0), NO_COMMAND)
def known_T(tl, x, y):
    is_first = (tl.arange(0, 4)[None, :] < 2).T
    tl.store(y, tl.load(x, is_first & (tl.arange(0, 8) < 8)))


@gives(lambda x: x[[3, 2, 1, 0]], NO_COMMAND)
def known_reshape(tl, x, y):
    backwards = 3 - tl.arange(0, 4).reshape((2, 2))
    tl.store(y, tl.load(x[backwards.reshape((4,))]))


@gives(lambda x: x, NO_COMMAND)
def known_shape(tl, x, y):
    rows = tl.arange(0, 4)
    tl.store(y, tl.load(x[0 : rows.shape[0], :]))


@gives(lambda x: x[:3], NO_COMMAND)
def known_data(tl, x, y):
    last = (tl.arange(0, 3)).data.max()
    tl.store(y, tl.load(x[: last + 1]))


@gives(lambda x: x, NO_COMMAND)
def known_is_mask(tl, x, y):
    rows = tl.arange(0, 4)
    assert (rows < 3).is_mask
    assert not rows.is_mask
    tl.store(y, tl.load(x))
