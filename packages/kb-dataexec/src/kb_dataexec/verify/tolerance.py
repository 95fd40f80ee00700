"""The allowed error of an output against its float64 reference: the bound of a product, and a default bound."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_messages import DType, KbError, Overflow

ACCUMULATOR_ROUNDOFF: Final = 2.0**-24
"""The unit roundoff u of f32. Source: Higham and Mary, "A new approach to probabilistic rounding error analysis"
(2019): with high probability, the error of a sum of k products grows like sqrt(k) u."""

_DEFAULT: Final[dict[DType, tuple[float, float]]] = {
    DType.F32: (1e-5, 1e-5),
    DType.F16: (1e-3, 1e-3),
    DType.BF16: (1e-2, 1e-2),
    DType.F8E4M3: (2.0**-3, 2.0**-9),
    DType.F8E5M2: (2.0**-2, 2.0**-16),
}
"""(relative, absolute) tolerance. Source: assumed for f32, f16 and bf16. fp8 gets
twice its unit roundoff and the spacing of its numbers near zero, because an absolute 1/8 would pass any value there."""

_LARGEST_F8E4M3: Final = 448.0
"""Source: OCP 8-bit floating point specification 1.0, table 1. E4M3 uses its largest exponent for numbers too."""


class ToleranceError(KbError):
    """A tolerance that is no bound, such as a negative one, or an input from which no tolerance follows."""


def gemm_tolerance(expected_f64: Array, abs_product: Array, k: int, dtype_out: DType) -> Array:
    """Returns the allowed error of each element of a product A @ B, as f64 of shape (M, N).

    *expected_f64* is A @ B in f64 and *abs_product* is |A| @ |B|, or a bound on it; both have shape (M, N). *k* is the
    length of the sums. The bound is 2 u |A @ B| + sqrt(k) 2^-24 (|A| @ |B|) + the smallest subnormal of *dtype_out*,
    where u is the unit roundoff of *dtype_out*. Source: Higham and Mary (2019), see `ACCUMULATOR_ROUNDOFF`. Integers
    must be exact, so the bound is zero for them. Raises ToleranceError if the shapes differ, *k* is negative, or
    an element of |A| @ |B| is negative.
    """
    if expected_f64.shape != abs_product.shape:
        raise ToleranceError("gemm_tolerance", f"an |A| @ |B| of shape {abs_product.shape}", f"{expected_f64.shape}")
    if not 0 <= k < math.inf:
        raise ToleranceError("gemm_tolerance", f"sums of {k} terms", "0 or more")
    if abs_product.size and abs_product.min() < 0:
        raise ToleranceError("gemm_tolerance", f"an |A| @ |B| of {abs_product.min():g}", "the product of magnitudes")
    if not dtype_out.is_float:
        return np.zeros(expected_f64.shape)
    info = dtype_out.info
    tolerance: Array = np.abs(expected_f64)
    tolerance *= 2.0 * info.unit_roundoff
    tolerance += abs_product * (math.sqrt(k) * ACCUMULATOR_ROUNDOFF)
    tolerance += info.smallest_subnormal
    return tolerance


def default_tolerance(expected: Array, dtype: DType, length: int = 1) -> Array:
    """Returns the allowed error of each element if the kernel states no scale of its own, as f64 of *expected*'s shape.

    The bound is t |expected| + s + length 2^-24 rms(expected). (t, s) is (1e-5, 1e-5) for f32, (1e-3, 1e-3) for f16,
    (1e-2, 1e-2) for bf16, (1/8, 2^-9) for f8e4m3 and (1/4, 2^-16) for f8e5m2. The last term is for outputs that are
    sums of *length* terms in f32, and is left out for a length of 1. With random signs, such a sum is sqrt(length)
    times smaller than the sum of the magnitudes of its terms, and may lose sqrt(length) 2^-24 of that sum.
    Integers must be exact, so the bound is zero for them. Raises ToleranceError for a length below 1.

    The bound suits chains of math ops, which compute in f32 and round to *dtype* at their store, unless large values
    cancel. A kernel that subtracts nearly equal numbers has to state its own scale.
    """
    if not 1 <= length < math.inf:
        raise ToleranceError("default_tolerance", f"sums of {length} terms", "1 or more")
    if not dtype.is_float:
        return np.zeros(expected.shape)
    relative, absolute = _DEFAULT[dtype]
    reference = np.abs(expected.astype(np.float64))
    tolerance: Array = absolute + relative * reference
    finite = reference[np.isfinite(reference)]
    if length > 1 and finite.size:
        tolerance += length * ACCUMULATOR_ROUNDOFF * math.sqrt(float(np.mean(finite * finite)))
    return tolerance


def largest_finite(dtype: DType) -> float:
    """Returns the largest finite number of a floating-point *dtype*."""
    info = dtype.info
    if dtype is DType.F8E4M3:
        return _LARGEST_F8E4M3
    assert info.min_exponent is not None, "a floating-point type"
    return (2.0 - 2.0 * info.unit_roundoff) * 2.0 ** (1 - info.min_exponent)


def as_stored(reference: Array, dtype: DType) -> Array:
    """Returns a float64 *reference* limited to the range of *dtype*, in float64 and of the same shape.

    A value out of range becomes the result of a cast to *dtype*: fp8 saturates; other floats become infinite from the
    point where rounding to nearest does. The precision stays float64. Integers are returned unchanged.
    """
    if not dtype.is_float:
        return reference
    limit = largest_finite(dtype)
    if dtype.info.overflow is Overflow.SATURATE:
        return np.clip(reference, -limit, limit)
    half_a_step = limit * dtype.info.unit_roundoff / (2.0 - 2.0 * dtype.info.unit_roundoff)
    return np.where(np.abs(reference) >= limit + half_a_step, np.copysign(np.inf, reference), reference)
