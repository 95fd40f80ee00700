"""Common parts of the examples: types to run in, random arrays, and tolerances of results."""

import sys

import ml_dtypes
import numpy as np

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_RELATIVE = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}
"""Tolerances: a few units in the last place of each type; for f32 more, for sums in another order. Source: assumed."""


def asked_types():
    """The names of types on the command line; all three types where there are none."""
    return sys.argv[1:] or list(TYPES)


def normal(rng, shape, name):
    """Normal random numbers of *shape* in the type *name*."""
    return rng.standard_normal(shape).astype(TYPES[name])


def exact(*arrays):
    """The arrays in float64."""
    return [each.astype(np.float64) for each in arrays]


def assert_near(found, expected, name):
    """Fails unless *found* is *expected* within the tolerance of type *name*, relative to the largest element."""
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=_RELATIVE[name], atol=_RELATIVE[name] * size)
