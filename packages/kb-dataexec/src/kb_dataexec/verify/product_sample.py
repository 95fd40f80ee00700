"""check_product: checks a product A @ B by sample: random sums of all rows, and some rows element by element.

Source: R. Freivalds, "Probabilistic machines can use less running time" (1977), for the random sums. With normal
weights g, the sum D g of the errors D of a row is normal with the deviation |D|, the root of the sum of squares of D.
So |D g| is below t with a probability of at most sqrt(2 / pi) t / |D|.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_parallel
from kb_dataexec.backends.blas_threads import single_threaded
from kb_dataexec.verify.compare import Comparison, compare
from kb_dataexec.verify.sample_record import ProductSample
from kb_dataexec.verify.tolerance import ACCUMULATOR_ROUNDOFF, ToleranceError, gemm_tolerance
from kb_messages import DType

ROWS: Final = 64
"""Rows that are compared element by element. Source: assumed; they take as long as the random sums."""
WEIGHTS: Final = 8
"""Random sums of each row and block of columns."""
COLUMNS: Final = 256
"""Columns of a block. A short block finds smaller errors, because fewer roundings add up beside them."""
LIMIT: Final = 4.0
"""A row is compared if a sum of its errors exceeds this many times the root of the sum of squares of the allowed
errors. A right row exceeds it with a probability of 6e-5 if every error is as large as allowed."""
FACTOR: Final = 40.0
"""The size of the error whose probability to be missed is stated, in units of the allowed error."""
_LARGEST_WEIGHT: Final = 1 << 14
_EXACT: Final = 1 << 53
_PART_ELEMENTS: Final = 1 << 22
"""Elements of a factor that are f32 or f64 at the same time."""


class SampledComparison(NamedTuple):
    """The comparison of the compared rows, with indices of the whole product, and the record of the sample."""

    comparison: Comparison
    sample: ProductSample


class _Weighed(NamedTuple):
    """B times the weights (k, blocks, WEIGHTS), and the norms of the blocks of B: enough for sums of A @ B."""

    sums: Array
    norms: Array


def why_not_sampled(a: Array, b: Array, dtype_out: DType) -> str | None:
    """Returns the reason why `check_product` cannot check a @ b of *dtype_out*; None if it can."""
    if dtype_out.is_float and dtype_out.nbytes < 2:
        return f"an output of {dtype_out}, whose roundings hide errors in sums"
    if not dtype_out.is_float and _largest_weight(a, b) < 2:
        return f"integers of {a.dtype} and {b.dtype} with {a.shape[1]} terms, whose sums f64 does not hold"
    if dtype_out.is_float and not (_is_finite(a) and _is_finite(b)):
        return "factors with NaN or infinities"
    return None


def check_product(name: str, got: Array, a: Array, b: Array, dtype_out: DType, seed: int) -> SampledComparison:
    """Checks by sample that *got*, of *dtype_out*, is a @ b within `gemm_tolerance`. *seed* chooses rows and weights.

    A wrong row is found by its sums, or because it is one of the `ROWS` rows. It is then compared element by element,
    so a right row is never called wrong. Raises ToleranceError for shapes that do not fit, and for a product that
    cannot be sampled (`why_not_sampled`).
    """
    why = why_not_sampled(a, b, dtype_out)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or got.shape != (len(a), b.shape[1]):
        raise ToleranceError(name, f"{got.shape} for {a.shape} @ {b.shape}", "matrices that fit together")
    if why is not None:
        raise ToleranceError(name, why, "a product that can be sampled", "verify it in full")
    rng = np.random.default_rng([seed, *map(ord, "product sample")])
    rows = np.sort(rng.choice(len(a), min(ROWS, len(a)), replace=False))
    weights = _weights(rng, a, b, dtype_out)
    with single_threaded():
        found = _compare_rows(name, got, a, b, dtype_out, rows)
        if found.ok and len(rows) < len(a):
            found = _compare_suspects(found, got, a, b, dtype_out, weights)
    return SampledComparison(found, _sample(len(rows), a, b, dtype_out))


def _is_finite(matrix: Array) -> bool:
    parts = _parts(*matrix.shape)
    return all(bool(np.isfinite(matrix[part].astype(np.float32)).all()) for part in parts)


def _compare_suspects(
    found: Comparison, got: Array, a: Array, b: Array, dtype_out: DType, weights: Array
) -> Comparison:
    """Returns *found*, or the comparison of the first suspect rows (by their sums) of which one is wrong."""
    suspects = _suspects(got, a, _weighed(b, weights), weights, dtype_out)
    for first in range(0, len(suspects), ROWS):
        compared = _compare_rows(found.name, got, a, b, dtype_out, suspects[first : first + ROWS])
        if not compared.ok:
            return compared
    return found


def _sample(rows: int, a: Array, b: Array, dtype_out: DType) -> ProductSample:
    if rows == len(a):
        factor, miss = 0.0, 0.0
    elif dtype_out.is_float:
        factor = FACTOR
        limit = LIMIT + 1  # 1 more for the rounding of the sums themselves
        one = math.sqrt(2 / math.pi) * limit * (1 / factor + 2 * dtype_out.info.unit_roundoff)
        miss = min(one, 1.0) ** WEIGHTS
    else:
        factor, miss = 0.0, float(_largest_weight(a, b)) ** -WEIGHTS
    return ProductSample(
        rows=rows, columns=min(COLUMNS, b.shape[1]), weights=WEIGHTS, miss_factor=factor, miss_probability=miss
    )


def _weights(rng: np.random.Generator, a: Array, b: Array, dtype_out: DType) -> Array:
    """A weight for each column and sum: normal for floats; for integers whole numbers, so that f64 holds all sums."""
    shape = b.shape[1], WEIGHTS
    if dtype_out.is_float:
        return rng.standard_normal(shape).astype(_wide(dtype_out))
    return rng.integers(0, _largest_weight(a, b), shape).astype(np.float64)


def _largest_weight(a: Array, b: Array) -> int:
    """Weights below this number keep all sums of integers below 2^53."""
    largest = 2 ** (8 * (a.dtype.itemsize + b.dtype.itemsize)) * a.shape[1]
    return int(min(_LARGEST_WEIGHT, _EXACT // (COLUMNS * max(largest, 1 << 31))))


def _blocks(n_columns: int) -> list[slice]:
    return [slice(first, min(first + COLUMNS, n_columns)) for first in range(0, n_columns, COLUMNS)]


def _parts(length: int, elements: int) -> list[slice]:
    """Splits range(*length*) into parts of about `_PART_ELEMENTS` elements.

    Each number stands for *elements* elements.
    """
    step = max(1, _PART_ELEMENTS // max(elements, 1))
    return [slice(first, min(first + step, length)) for first in range(0, length, step)]


def _wide(dtype_out: DType) -> DTypeLike:
    """The type of the sums: f32 if it is far finer than the output, so that its roundings add up to less; else f64."""
    return np.float32 if dtype_out in (DType.F16, DType.BF16) else np.float64


def _weighed(b: Array, weights: Array) -> _Weighed:
    blocks, parts = _blocks(b.shape[1]), _parts(len(b), b.shape[1])
    sums = np.empty((len(b), len(blocks), WEIGHTS), weights.dtype)
    squares = np.zeros((len(parts), b.shape[1]))

    def weigh(number: int) -> None:
        values = b[parts[number]].astype(weights.dtype)
        np.einsum("ij,ij->j", values, values, out=squares[number])
        for block, columns in enumerate(blocks):
            np.matmul(values[:, columns], weights[columns], out=sums[parts[number], block])

    in_parallel(weigh, range(len(parts)))
    columns_of = squares.sum(axis=0)
    return _Weighed(sums, np.sqrt([columns_of[columns].sum() for columns in blocks]))


def _suspects(got: Array, a: Array, weighed: _Weighed, weights: Array, dtype_out: DType) -> Array:
    """The rows with a sum that is farther from the sum of a @ b than `LIMIT` allows."""
    blocks, k = _blocks(got.shape[1]), a.shape[1]
    flat = weighed.sums.reshape(k, -1)
    is_suspect = np.zeros(len(a), np.bool_)

    def look(rows: slice) -> None:
        factor, values = (each[rows].astype(flat.dtype) for each in (a, got))
        expected = (factor @ flat).reshape(len(factor), len(blocks), WEIGHTS)
        norms = np.sqrt(np.einsum("ij,ij->i", factor, factor))
        for block, columns in enumerate(blocks):
            part = values[:, columns]
            error = np.abs(part @ weights[columns] - expected[:, block]).max(axis=1)
            allowed = _allowed(part, norms * weighed.norms[block], k, dtype_out)
            is_suspect[rows] |= ~((error <= allowed) & np.isfinite(error))

    in_parallel(look, _parts(len(a), max(k, got.shape[1])))
    return np.flatnonzero(is_suspect)


def _allowed(got: Array, norms: Array, k: int, dtype_out: DType) -> Array:
    """`LIMIT` times the root of the sum of squares of the allowed errors of each row of *got*.

    *norms* are the norms of the rows of A times the norm of B, which bound the norm of a row of |A| @ |B|.
    """
    if not dtype_out.is_float:
        return np.zeros(len(got))
    info = dtype_out.info
    allowed: Array = 2.0 * info.unit_roundoff * np.sqrt(np.einsum("ij,ij->i", got, got))
    allowed += math.sqrt(k) * ACCUMULATOR_ROUNDOFF * norms + info.smallest_subnormal * math.sqrt(got.shape[1])
    return LIMIT * allowed


def _compare_rows(name: str, got: Array, a: Array, b: Array, dtype_out: DType, rows: Array) -> Comparison:
    """Compares *rows* of *got* with the same rows of a @ b, element by element."""
    k, wide = a.shape[1], a[rows].astype(np.float64)
    expected, size, magnitudes = np.empty((len(rows), b.shape[1])), np.empty((len(rows), b.shape[1])), np.abs(wide)

    def multiply(columns: slice) -> None:
        factor = b[:, columns].astype(np.float64)
        np.matmul(wide, factor, out=expected[:, columns])
        np.matmul(magnitudes, np.abs(factor, out=factor), out=size[:, columns])

    in_parallel(multiply, _parts(b.shape[1], k))
    found = compare(name, got[rows], expected, gemm_tolerance(expected, size, k, dtype_out))
    return Comparison(
        name=name,
        ok=found.ok,
        n_elements=found.n_elements,
        n_wrong=found.n_wrong,
        max_abs_err=found.max_abs_err,
        worst=(int(rows[found.worst[0]]), found.worst[1]),
        expected=found.expected,
        got=found.got,
        allowed=found.allowed,
        region=tuple(
            (int(rows[low]), int(rows[high - 1]) + 1) if axis == 0 else (low, high)
            for axis, (low, high) in enumerate(found.region)
        ),
    )
