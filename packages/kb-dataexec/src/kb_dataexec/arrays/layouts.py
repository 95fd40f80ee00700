"""Functions that reorder, choose or count elements, or take their bytes as another type.

They work on matrices, and on stacks of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kb_dataexec.arrays.dtypes import Array
from kb_messages import MathAttributes


def rearranged(x: Array, attributes: MathAttributes, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """The elements of *x*, counted row by row, at `first` + index * `strides`, over indices of `lengths`."""
    flat = np.ascontiguousarray(x).reshape(*x.shape[:-2], -1).view(f"u{x.itemsize}")  # as_strided knows no f8
    steps = tuple(flat.itemsize * stride for stride in attributes.strides)
    lengths = (*flat.shape[:-1], *attributes.lengths)
    view = as_strided(flat[..., attributes.first :], lengths, (*flat.strides[:-1], *steps), writeable=False)
    return np.array(view).reshape(*x.shape[:-2], *shape).view(x.dtype)


def combined(a: Array, b: Array, attributes: MathAttributes, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """The elements of *a* and then of *b*, counted row by row, at `first` + index * `strides` (see `rearranged`)."""
    flat = [each.reshape(*each.shape[:-2], 1, -1) for each in (a, b)]
    return rearranged(np.concatenate(flat, axis=-1), attributes, shape, dtype)


def histogram(x: Array, attributes: MathAttributes, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """The number of elements equal to 0, 1, ..., for each column of *shape*. Other elements do not count."""
    bins = shape[1]
    stack = x.reshape(-1, x.shape[-2] * x.shape[-1])
    inside = (stack >= 0) & (stack < bins)
    places = stack + bins * np.arange(len(stack))[:, None]
    counts = np.bincount(places[inside].astype(np.int64), minlength=bins * len(stack))
    return counts.reshape(*x.shape[:-2], 1, bins)


def gathered(index: Array, x: Array, attributes: MathAttributes, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """The elements of *x* at *index* along `axis`; NaN, or 0 for integers, where *index* is outside *x*."""
    assert attributes.axis is not None
    axis = attributes.axis - 2
    inside = (index >= 0) & (index < x.shape[axis])
    found = np.take_along_axis(x, np.where(inside, index, 0).astype(np.int64), axis)
    nothing = 0 if x.dtype.kind in "iub" else np.nan
    return np.where(inside, found, np.array(nothing).astype(x.dtype))


def retyped(x: Array, attributes: MathAttributes, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """The bytes of *x* as elements of *dtype*, which has the same width."""
    return np.array(x, order="C").view(dtype)
