"""Comparison of an output with its reference, element by element, under a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.verify.tolerance import ToleranceError

_BLOCK_ELEMENTS: Final = 1 << 20


class Comparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of `compare`. `worst` is the index of the element whose error exceeds its tolerance most.

    `expected`, `got` and `allowed` belong to that element. `max_abs_err` is the largest error of all elements. The
    error is infinite where one value is NaN or infinite and the other value is not. `region` is the smallest box that
    holds all wrong elements: for each axis, the first index and the index behind the last; () if all are right.
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
    region: tuple[tuple[int, int], ...] = ()

    @property
    def share(self) -> float:
        """The part of the elements that are wrong, 0 to 1."""
        return self.n_wrong / self.n_elements if self.n_elements else 0.0

    def __str__(self) -> str:
        if self.n_elements == 0:
            return f"{self.name}: ok, no elements"
        if self.ok:
            count = "1 element" if self.n_elements == 1 else f"{self.n_elements} elements"
            return f"{self.name}: ok, {count}, largest error {self.max_abs_err:.3g}"
        at = ", ".join(map(str, self.worst))
        return (
            f"{self.name}: {self.n_wrong} of {self.n_elements} elements wrong{self._where}; at [{at}] got "
            f"{self.got:.9g}, expected {self.expected:.9g} within {self.allowed:.3g}"
        )

    @property
    def _where(self) -> str:
        """The share and the region of wrong elements, where they say more than the count and the worst element."""
        if self.n_wrong < 2 or not self.region:
            return ""
        box = ", ".join(f"{low}:{high}" for low, high in self.region)
        return f" ({100 * self.share:.3g} %), in [{box}]"


def compare(name: str, got: Array, expected: Array, tolerance: Array | float) -> Comparison:
    """Compares |got - expected| <= tolerance for every element. *tolerance* broadcasts against *expected*.

    NaN equals NaN, and an infinity equals an infinity of the same sign. Any other non-finite element is wrong. Works in
    blocks, which bounds the memory. Raises ValueError if *got* and *expected* differ in shape, and ToleranceError for a
    tolerance that is negative, or not finite where *expected* is finite.
    """
    check_tolerance(name, expected, tolerance)
    return compare_within(name, got, expected, tolerance)


def compare_within(name: str, got: Array, expected: Array, tolerance: Array | float) -> Comparison:
    """Compares like `compare`, without the check of *tolerance*. Where it is infinite, every finite value is right."""
    if got.shape != expected.shape:
        raise ValueError(f"{name}: got shape {got.shape}, needs {expected.shape}")
    allowed = np.broadcast_to(np.asarray(tolerance, np.float64), expected.shape)
    n_wrong, max_abs_err, worst_excess = 0, 0.0, -math.inf
    worst = (0,) * got.ndim
    region: tuple[tuple[int, int], ...] = ()
    for block in _blocks(got.shape):
        error, excess = _errors(got[block], expected[block], allowed[block])
        wrong = excess > 0
        count = int(np.count_nonzero(wrong))
        if count:
            n_wrong += count
            region = _joined(region, _box(wrong, block))
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
        region=region,
    )


def _box(wrong: Array, block: tuple[slice, ...]) -> tuple[tuple[int, int], ...]:
    """The smallest box that holds the marked elements of *block*, in indices of the whole array."""
    found = []
    for axis, part in enumerate(block):
        others = tuple(other for other in range(wrong.ndim) if other != axis)
        at = np.flatnonzero(wrong.any(axis=others))
        start = part.start or 0
        found.append((start + int(at[0]), start + int(at[-1]) + 1))
    return tuple(found)


def _joined(one: tuple[tuple[int, int], ...], two: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The smallest box that holds both boxes. () is a box without elements."""
    if not one:
        return two
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(one, two, strict=True))


def check_tolerance(name: str, expected: Array, tolerance: Array | float) -> None:
    """Raises ToleranceError for a tolerance that is negative, or not finite where *expected* is finite."""
    allowed = np.asarray(tolerance)
    if allowed.dtype.kind not in "biuf":
        raise ToleranceError(f"{name}: tolerance", f"an array of {allowed.dtype}", "numbers")
    if not allowed.size or (np.isfinite(allowed).all() and allowed.min() >= 0):
        return
    bad = (allowed < 0) | (~np.isfinite(allowed) & np.isfinite(np.asarray(expected, np.float64)))
    if bad.any():
        value = float(np.broadcast_to(allowed, bad.shape)[bad][0])
        raise ToleranceError(f"{name}: tolerance", f"{value:g}", "a number of 0 or more that is finite")


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Indices of blocks of about _BLOCK_ELEMENTS elements, cut along the first axis. An empty array has no block."""
    if not shape:
        yield ()
        return
    if math.prod(shape) == 0:
        return
    step = max(1, _BLOCK_ELEMENTS * shape[0] // math.prod(shape))
    for start in range(0, shape[0], step):
        yield (slice(start, start + step), *(slice(0, length) for length in shape[1:]))


def _errors(got: Array, expected: Array, allowed: Array) -> tuple[Array, Array]:
    """Returns (|got - expected|, the part of it beyond *allowed*). Both are infinite for values that cannot be
    compared."""
    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        error = np.asarray(_integer_distance(got, expected))
        return error, error - allowed
    with np.errstate(all="ignore"):
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        error = np.asarray(np.abs(got - expected))
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
        excess = np.where(
            same,
            np.where(np.isfinite(allowed), -np.abs(allowed), 0.0),
            np.where(np.isfinite(error), error - allowed, np.inf),
        )
    return error, np.where(np.isnan(excess), np.inf, excess)


def _integer_distance(got: Array, expected: Array) -> Array:
    """|got - expected| as f64, without overflow. It is 0 only where the integers are equal."""
    distance: Array = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    return np.where(got == expected, 0.0, np.maximum(distance, 1.0))
