"""What the examples share: the types to run in, random arrays, and how near a result has to be."""

import sys

import ml_dtypes
import numpy as np

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_RELATIVE = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}
"""A few units in the last place of each type; of f32 more, for sums in another order. Source: assumed."""


def asked_types():
    """The names of types after the script's name; all three without any."""
    return sys.argv[1:] or list(TYPES)


def normal(rng, shape, name):
    """Normal random numbers of *shape* in the type *name*."""
    return rng.standard_normal(shape).astype(TYPES[name])


def exact(*arrays):
    """The arrays in float64."""
    return [each.astype(np.float64) for each in arrays]


def assert_near(found, expected, name):
    """Fail unless *found* is *expected*, as near as the type *name* allows at the size of the largest element."""
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=_RELATIVE[name], atol=_RELATIVE[name] * size)
