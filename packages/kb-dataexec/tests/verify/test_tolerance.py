import math

import numpy as np
import pytest

from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.verify.compare import compare
from kb_dataexec.verify.tolerance import ToleranceError, as_stored, default_tolerance, gemm_tolerance, largest_finite
from kb_messages import DType


@pytest.fixture(scope="module")
def long_gemm():
    """A GEMM with K = 14336, as f16 factors, its reference and its bound."""
    rng, k = np.random.default_rng(7), 14336
    a, b = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((12, k), (k, 10)))
    reference = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    return a, b, reference, gemm_tolerance(reference, size, k, DType.F16)


def f32(array):
    return array.astype(np.float32)


def test_the_gemm_bound_is_the_sum_of_its_three_terms():
    # twice f16's roundoff 2^-11 of 8, then sqrt(4) 2^-24 of 16, then f16's smallest subnormal
    bound = gemm_tolerance(np.array([[-8.0]]), np.array([[16.0]]), 4, DType.F16)
    assert bound.tolist() == [[2.0**-7 + 2.0**-19 + 2.0**-24]]


def test_a_correct_f16_gemm_of_length_14336_passes(long_gemm):
    a, b, reference, bound = long_gemm
    assert compare("c", (f32(a) @ f32(b)).astype(np.float16), reference, bound).ok


def test_a_gemm_that_misses_one_k_tile_fails(long_gemm):
    a, b, reference, bound = long_gemm
    got = (f32(a[:, :-128]) @ f32(b[:-128])).astype(np.float16)
    assert not compare("c", got, reference, bound).ok


def test_a_gemm_with_one_wrong_factor_fails(long_gemm):
    a, b, reference, bound = long_gemm
    wrong = a.copy()
    wrong[3, 5000] += np.float16(1.0)
    assert not compare("c", (f32(wrong) @ f32(b)).astype(np.float16), reference, bound).ok


def test_a_gemm_that_accumulates_in_f16_fails(long_gemm):
    a, b, reference, bound = long_gemm
    total = np.zeros(reference.shape, np.float16)
    for k in range(0, a.shape[1], 128):
        total += (f32(a[:, k : k + 128]) @ f32(b[k : k + 128])).astype(np.float16)
    assert not compare("c", total, reference, bound).ok


def test_integer_gemms_must_be_exact():
    assert gemm_tolerance(np.array([5.0]), np.array([5.0]), 9, DType.I32).tolist() == [0.0]


@pytest.mark.parametrize(
    ("dtype", "relative", "absolute"),
    [
        ("f32", 1e-5, 1e-5),
        ("f16", 1e-3, 1e-3),
        ("bf16", 1e-2, 1e-2),
        ("f8e4m3", 2.0**-3, 2.0**-9),
        ("f8e5m2", 2.0**-2, 2.0**-16),
        ("i32", 0.0, 0.0),
    ],
)
def test_the_default_tolerance_is_relative_and_absolute(dtype, relative, absolute):
    got = default_tolerance(np.array([-3.0]), DType(dtype))
    assert got.tolist() == pytest.approx([absolute + 3 * relative])


def test_the_default_tolerance_grows_with_the_accumulation():
    # the root mean square of 3 and -4 is sqrt(12.5); an infinity tells nothing of the sums' size
    got = default_tolerance(np.array([3.0, -4.0, np.inf]), DType.F32, 4096)
    assert got[:2].tolist() == pytest.approx([1e-5 * (1 + x) + 4096 * 2.0**-24 * 12.5**0.5 for x in (3, 4)])


@pytest.mark.parametrize("k", [4096, 16384])
def test_a_correct_f32_gemm_needs_the_length_and_a_lost_tile_still_fails(k):
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((16, k), (k, 16)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    products = a.T[:, :, None] * b[:, None, :]
    one_by_one = np.cumsum(products, axis=0, dtype=np.float32)[-1]  # adds one product after the other
    assert not compare("c", one_by_one, exact, default_tolerance(exact, DType.F32)).ok
    tolerance = default_tolerance(exact, DType.F32, k)
    assert compare("c", one_by_one, exact, tolerance).ok
    assert not compare("c", f32(a[:, 64:]) @ f32(b[64:]), exact, tolerance).ok


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_float])
def test_a_reference_gets_the_range_of_the_type_that_it_is_stored_in(dtype):
    limit = largest_finite(dtype)
    edges = np.array([limit, limit * (1 + dtype.info.unit_roundoff / 4), limit * 1.2, np.inf])
    reference = np.concatenate([edges, -edges, [0.3, np.nan]])
    stored = as_stored(reference, dtype)
    got = cast(reference, dtype).astype(np.float64)
    assert (np.isinf(stored) == np.isinf(got)).all()
    assert (np.isnan(stored) == np.isnan(got)).all()
    finite = np.isfinite(stored)
    stored, got = stored[finite], got[finite]
    assert (np.abs(stored - got) <= dtype.info.unit_roundoff * np.abs(stored)).all()


def test_an_fp8_gemm_that_saturates_is_right_and_one_that_does_not_is_wrong():
    exact = np.array([[1000.0, -1000.0, 3.0]])
    reference = as_stored(exact, DType.F8E4M3)
    tolerance = gemm_tolerance(reference, np.abs(exact), 8, DType.F8E4M3)
    assert compare("c", cast(exact, DType.F8E4M3), reference, tolerance).ok
    assert not compare("c", np.array([[np.nan, -448.0, 3.0]]), reference, tolerance).ok


@pytest.mark.parametrize("length", [0, -1, math.nan, math.inf])
def test_a_length_that_is_none_is_refused(length):
    with pytest.raises(ToleranceError, match=r"^default_tolerance: got sums of .* terms, needs 1 or more$"):
        default_tolerance(np.ones(3), DType.F32, length)


def test_inputs_that_give_no_bound_of_a_product_are_refused():
    ones = np.ones((2, 2))
    with pytest.raises(ToleranceError, match="got sums of -1 terms, needs 0 or more"):
        gemm_tolerance(ones, ones, -1, DType.F32)
    with pytest.raises(ToleranceError, match=r"of shape \(2,\), needs \(2, 2\)"):
        gemm_tolerance(ones, ones[0], 1, DType.F32)
    with pytest.raises(ToleranceError, match="of -1, needs the product of magnitudes"):
        gemm_tolerance(ones, -ones, 1, DType.F32)
