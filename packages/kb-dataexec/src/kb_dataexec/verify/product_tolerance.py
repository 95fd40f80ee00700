"""product_tolerance: the allowed error of a product A @ B, without a second product where that is costly."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, convert
from kb_dataexec.verify.tolerance import gemm_tolerance
from kb_messages import DType

EXACT_UP_TO: Final = 1 << 30
"""Multiplications up to which |A| @ |B| is computed. Source: assumed; it takes some 30 ms."""
TERMS: Final = 64
"""The number of terms of one norm."""


def product_tolerance(expected_f64: Array, a: Array, b: Array, dtype_out: DType) -> Array:
    """Returns `gemm_tolerance` of a @ b, for the factors *a* (M, K) and *b* (K, N) of any types, as f64 (M, N).

    Up to `EXACT_UP_TO` multiplications it is made with |A| @ |B|. Above, with a bound on |A| @ |B| by norms, block by
    block along K: in each block of `TERMS` terms, a sum of |a| |b| is at most the norm of the row of A times the norm
    of the column of B. That takes a 64th of the product. Source: the inequality of Cauchy and Schwarz.

    The bound is never below |A| @ |B|. It is equal for terms of one size, and close if one term of a block is far
    larger than the others. For normally distributed numbers it is 1.56 times as large, so the allowed error of an f32
    output is larger by that factor; the rounding of f16 and bf16 outputs is far larger. Raises ToleranceError for
    shapes that do not fit.
    """
    sizes = np.zeros(expected_f64.shape) if not dtype_out.is_float else _abs_product(a, b)
    return gemm_tolerance(expected_f64, sizes, a.shape[1], dtype_out)


def _abs_product(a: Array, b: Array) -> Array:
    """|A| @ |B| or a bound on it, as f32."""
    if len(a) * b.shape[1] * a.shape[1] <= EXACT_UP_TO:
        exact: Array = np.abs(a.astype(np.float32)) @ np.abs(b.astype(np.float32))
        return exact
    starts = range(0, a.shape[1], TERMS)
    rows, cols = np.empty((len(a), len(starts)), np.float32), np.empty((len(starts), b.shape[1]), np.float32)
    for number, start in enumerate(starts):
        part = slice(start, start + TERMS)
        left, right = (convert(each, np.dtype(np.float64)) for each in (a[:, part], b[part]))
        rows[:, number] = _above(np.sqrt(np.einsum("ij,ij->i", left, left)))
        cols[number] = _above(np.sqrt(np.einsum("ij,ij->j", right, right)))
    bound: Array = rows @ cols
    bound *= 1 + len(starts) * np.float32(2.0**-23)
    return bound


def _above(norms: Array) -> Array:
    """*norms* as f32, rounded up."""
    return np.nextafter(norms.astype(np.float32), np.float32(np.inf))
