"""Verification: how far outputs may be from a float64 reference, and where they are not within that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct

from kb_dataexec.arrays.dtypes import Array
from kb_messages import DType, Overflow

_BLOCK_ELEMENTS: Final = 1 << 20

# Source: Higham and Mary, "A new approach to probabilistic rounding error analysis" (2019): the error of a sum of k
# products grows like sqrt(k) u with high probability, u = 2^-24 being f32's unit roundoff.
_ACCUMULATOR_ROUNDOFF: Final = 2.0**-24

# (relative, absolute) tolerance. Source: the project's decision on verification for f32, f16 and bf16. fp8: twice its
# unit roundoff, and the spacing of its numbers next to zero; an absolute 1/8 would pass anything there.
_DEFAULT: Final[dict[DType, tuple[float, float]]] = {
    DType.F32: (1e-5, 1e-5),
    DType.F16: (1e-3, 1e-3),
    DType.BF16: (1e-2, 1e-2),
    DType.F8E4M3: (2.0**-3, 2.0**-9),
    DType.F8E5M2: (2.0**-2, 2.0**-16),
}

# Source: OCP 8-bit floating point specification 1.0, table 1: E4M3 spends its largest exponent on numbers, too.
_LARGEST_F8E4M3: Final = 448.0


class Comparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of `compare`. `worst` is the index of the element furthest beyond what is allowed.

    `expected`, `got` and `allowed` are that element's; `max_abs_err` is over all elements, infinite where one is NaN
    or infinite and the other is not.
    """

    name: str
    ok: bool
    n_elements: int
    n_wrong: int
    max_abs_err: float
    worst: tuple[int, ...]
    expected: float
    got: float
    allowed: float

    def __str__(self) -> str:
        if self.n_elements == 0:
            return f"{self.name}: ok, no elements"
        if self.ok:
            count = "1 element" if self.n_elements == 1 else f"{self.n_elements} elements"
            return f"{self.name}: ok, {count}, largest error {self.max_abs_err:.3g}"
        at = ", ".join(map(str, self.worst))
        return (
            f"{self.name}: {self.n_wrong} of {self.n_elements} elements wrong; at [{at}] got {self.got:.9g}, "
            f"expected {self.expected:.9g} within {self.allowed:.3g}"
        )


def gemm_tolerance(expected_f64: Array, abs_product: Array, k: int, dtype_out: DType) -> Array:
    """How far each element of A @ B may be from the reference, as f64 of the same shape.

    2 u |ref| + sqrt(k) 2^-24 (|A| @ |B|) + the smallest subnormal, with u the unit roundoff of *dtype_out*:
    *expected_f64* is A @ B in f64 and *abs_product* |A| @ |B|. Integers must be exact: zeros.
    """
    if not dtype_out.is_float:
        return np.zeros(expected_f64.shape)
    info = dtype_out.info
    tolerance: Array = np.abs(expected_f64) * (2.0 * info.unit_roundoff)
    tolerance += abs_product * (math.sqrt(k) * _ACCUMULATOR_ROUNDOFF)
    tolerance += info.smallest_subnormal
    return tolerance


def default_tolerance(expected: Array, dtype: DType, length: int = 1) -> Array:
    """Where a kernel states no error scale: t |expected| + s + length 2^-24 rms(expected), as f64.

    t and s are 1e-5 (f32), 1e-3 (f16), 1e-2 (bf16); 1/8 and 2^-9 (f8e4m3), 1/4 and 2^-16 (f8e5m2). The last term, which
    a *length* of 1 leaves out, is for results that are sums of so many terms in f32: with random signs they are
    sqrt(length) times smaller than the sum of the terms' sizes, of which sqrt(length) 2^-24 may be lost. Integers must
    be exact: zeros.

    It suits chains of math ops, which compute in f32 and round to *dtype* where they store, as long as no large values
    cancel: a kernel that subtracts nearly equal numbers states a scale of its own.
    """
    if not dtype.is_float:
        return np.zeros(expected.shape)
    relative, absolute = _DEFAULT[dtype]
    reference = np.abs(expected.astype(np.float64))
    tolerance: Array = absolute + relative * reference
    finite = reference[np.isfinite(reference)]
    if length > 1 and finite.size:
        tolerance += length * _ACCUMULATOR_ROUNDOFF * math.sqrt(float(np.mean(finite * finite)))
    return tolerance


def largest_finite(dtype: DType) -> float:
    """The largest number of a floating-point *dtype*."""
    info = dtype.info
    if dtype is DType.F8E4M3:
        return _LARGEST_F8E4M3
    assert info.min_exponent is not None, "a floating-point type"
    return (2.0 - 2.0 * info.unit_roundoff) * 2.0 ** (1 - info.min_exponent)


def as_stored(reference: Array, dtype: DType) -> Array:
    """A float64 *reference* with the range of *dtype*, not its precision: what lies beyond is what a cast makes of it.

    Types that overflow are infinite from where rounding to nearest is; fp8 saturates. Integers are left as they are.
    """
    if not dtype.is_float:
        return reference
    limit = largest_finite(dtype)
    if dtype.info.overflow is Overflow.SATURATE:
        return np.clip(reference, -limit, limit)
    half_a_step = limit * dtype.info.unit_roundoff / (2.0 - 2.0 * dtype.info.unit_roundoff)
    return np.where(np.abs(reference) >= limit + half_a_step, np.copysign(np.inf, reference), reference)


def compare(name: str, got: Array, expected: Array, tolerance: Array | float) -> Comparison:
    """Whether |got - expected| <= tolerance everywhere; *tolerance* broadcasts against *expected*.

    NaN equals NaN and an infinity one of the same sign; any other non-finite element is wrong, and so is every
    element for which the tolerance is NaN. Works in blocks, so memory is bounded. Raises ValueError when *got* and
    *expected* differ in shape.
    """
    if got.shape != expected.shape:
        raise ValueError(f"{name}: got shape {got.shape}, needs {expected.shape}")
    allowed = np.broadcast_to(np.asarray(tolerance, np.float64), expected.shape)
    n_wrong, max_abs_err, worst_excess = 0, 0.0, -math.inf
    worst: tuple[int, ...] = ()
    for block in _blocks(got.shape):
        error, excess = _errors(got[block], expected[block], allowed[block])
        n_wrong += int(np.count_nonzero(excess > 0))
        max_abs_err = max(max_abs_err, float(error.max()))
        at = int(np.argmax(excess))
        if excess.flat[at] > worst_excess:
            worst_excess = float(excess.flat[at])
            within = np.unravel_index(at, excess.shape)
            worst = tuple(int(i) + (part.start or 0) for i, part in zip(within, block, strict=True))
    values = [float(array[worst]) if got.size else 0.0 for array in (expected, got, allowed)]
    return Comparison(
        name=name,
        ok=n_wrong == 0,
        n_elements=got.size,
        n_wrong=n_wrong,
        max_abs_err=max_abs_err,
        worst=worst,
        expected=values[0],
        got=values[1],
        allowed=values[2],
    )


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices along the first axis whose blocks have about _BLOCK_ELEMENTS elements; none for an empty array."""
    if not shape:
        yield ()
        return
    if math.prod(shape) == 0:
        return
    step = max(1, _BLOCK_ELEMENTS * shape[0] // math.prod(shape))
    for start in range(0, shape[0], step):
        yield (slice(start, start + step), *(slice(0, length) for length in shape[1:]))


def _errors(got: Array, expected: Array, allowed: Array) -> tuple[Array, Array]:
    """(|got - expected|, how far that is beyond what is allowed), infinite where the two cannot be compared."""
    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        error = np.asarray(_integer_distance(got, expected))
        return error, error - allowed
    with np.errstate(all="ignore"):
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        error = np.asarray(np.abs(got - expected))
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
        excess = np.where(same, -np.abs(allowed), np.where(np.isfinite(error), error - allowed, np.inf))
    return error, np.where(np.isnan(excess), np.inf, excess)


def _integer_distance(got: Array, expected: Array) -> Array:
    """|got - expected| as f64 without overflow; exactly 0 only where the integers are equal."""
    distance: Array = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    return np.where(got == expected, 0.0, np.maximum(distance, 1.0))
