"""Reductions and scans by functions

A function of the kernel takes the place of the sum. It is called for pairs of elements, as a tree over the axis.
"""

import numpy as np
from tl_given import gives

COMMON = "CombiningFunctions"
_TREE = (
    "for n elements `ceil(log2(n))` steps, each of two moves of elements and the ops of *combine*, on half as many each"
)
_SCAN = "twice the cost of `reduce`, a move of all elements after each step, and more where n is no power of two"


def _followed(z):
    found = z.astype(np.float64)
    for at in range(1, z.shape[1]):
        found[:, at] = 0.5 * found[:, at - 1] + z[:, at]
    return found


@gives(lambda z: np.hypot.reduce(z, axis=1, keepdims=True), _TREE)
def tl_reduce(tl, z, y):
    tl.store(y, tl.reduce(tl.load(z), 1, lambda one, two: tl.sqrt(one * one + two * two)))


@gives(_followed, _SCAN)
def tl_associative_scan(tl, z, y):
    loaded = tl.load(z)  # each result is half of the one before it and the element
    steps = tl.full(loaded.shape, 0.5, "f32"), loaded
    tl.store(y, tl.associative_scan(steps, 1, lambda a, b, c, d: (a * c, b * c + d))[1])
