"""Products that are checked by sample: right ones pass, wrong ones fail, and misses are as rare as the check says."""

import math

import numpy as np
import pytest

from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.verify import ToleranceError, check_product, product_sample, why_not_sampled
from kb_messages import DType

FLOATS = [DType.F16, DType.BF16, DType.F32]


def factors(dtype: DType, m: int = 150, n: int = 530, k: int = 70, seed: int = 0):
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return tuple(cast(rng.standard_normal(shape, np.float32), dtype) for shape in ((m, k), (k, n)))
    return tuple(cast(rng.integers(-128, 128, shape), dtype) for shape in ((m, k), (k, n)))


def product(a, b, dtype: DType):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return cast(exact.astype(np.float32), dtype) if dtype.is_float else exact.astype(np.int32)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(150, 530, 70), (65, 1, 3), (70, 256, 1), (3, 40, 900)])
def test_a_right_product_passes(dtype, shape):
    a, b = factors(dtype, *shape)
    found, sample = check_product("c", product(a, b, dtype), a, b, dtype, 0)
    assert found.ok
    assert found.n_elements == min(64, shape[0]) * shape[1]
    assert (sample.rows, sample.columns) == (min(64, shape[0]), min(256, shape[1]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("error", ["one element", "a row", "a tile", "nan", "infinite"])
def test_a_wrong_product_fails_and_its_worst_element_is_named(monkeypatch, dtype, error):
    monkeypatch.setattr(product_sample, "ROWS", 2)  # so that the sums have to find it
    a, b = factors(dtype)
    got = product(a, b, dtype).astype(np.float32)
    wrong = {
        "one element": (slice(149, 150), slice(529, 530), 40.0),
        "a row": (slice(97, 98), slice(None), 20.0),
        "a tile": (slice(64, 128), slice(256, 384), 20.0),
        "nan": (slice(20, 21), slice(5, 6), np.nan),
        "infinite": (slice(20, 21), slice(5, 6), np.inf),
    }[error]
    got[wrong[:2]] += np.float32(wrong[2])
    found, _ = check_product("c", cast(got, dtype), a, b, dtype, 1)
    assert not found.ok
    row, col = found.worst
    assert row in range(150)[wrong[0]]
    assert col in range(530)[wrong[1]]
    assert found.expected == pytest.approx(float(a[row].astype(np.float64) @ b[:, col].astype(np.float64)))


def test_integers_have_to_be_exact(monkeypatch):
    monkeypatch.setattr(product_sample, "ROWS", 2)
    a, b = factors(DType.I8)
    got = product(a, b, DType.I32)
    assert check_product("c", got, a, b, DType.I32, 0).comparison.ok
    got[77, 300] += 1
    found, sample = check_product("c", got, a, b, DType.I32, 0)
    assert (found.ok, found.worst, found.n_wrong) == (False, (77, 300), 1)
    # Weights are whole numbers from 0 to 2^14 - 1: a sum misses any error with probability 2^-14 at most.
    assert (sample.miss_factor, sample.miss_probability) == (0, 2.0 ** (-14 * 8))


def test_a_row_that_is_suspect_and_right_passes(monkeypatch):
    monkeypatch.setattr(product_sample, "LIMIT", 0.0)
    a, b = factors(DType.F16)
    assert check_product("c", product(a, b, DType.F16), a, b, DType.F16, 0).comparison.ok


def test_misses_are_as_rare_as_the_formula_says(monkeypatch):
    """One sum misses an error of LIMIT times the allowed one with probability erf(1 / sqrt(2)) = 0.68, a sum of two
    with its square; the bound says sqrt(2 / pi) = 0.80. In 300 cases, 0.68 has a standard deviation of 0.027."""
    monkeypatch.setattr(product_sample, "ROWS", 1)
    monkeypatch.setattr(product_sample, "WEIGHTS", 1)
    a, b = factors(DType.F32, m=2, n=200, k=30)
    right = a.astype(np.float64) @ b.astype(np.float64)
    norms = np.linalg.norm(a.astype(np.float64), axis=1) * np.linalg.norm(b.astype(np.float64))
    allowed = 2.0**-23 * np.linalg.norm(right, axis=1) + math.sqrt(30) * 2.0**-24 * norms
    missed = []
    for seed in range(600):
        rng = np.random.default_rng([seed, *map(ord, "product sample")])
        row = 1 - int(rng.choice(2, 1, replace=False)[0])  # the one that is not compared in full
        got = right.copy()
        got[row, 7] += product_sample.LIMIT * allowed[row]
        missed.append(check_product("c", got, a, b, DType.F32, seed).comparison.ok)
    assert 0.60 < np.mean(missed) < 0.76


def test_the_stated_probability():
    a, b = factors(DType.F16)
    sample = check_product("c", product(a, b, DType.F16), a, b, DType.F16, 0).sample
    # One sum: sqrt(2 / pi) times (4 + 1) (1 / 40 + 2 2^-11) = 0.104. Eight of them: 1.3e-8.
    assert sample.miss_probability == pytest.approx((math.sqrt(2 / math.pi) * 5 * (1 / 40 + 2.0**-10)) ** 8)
    assert str(sample) == (
        "by sample: 64 rows in full, and 8 random sums of each row and 256 columns, "
        "which miss an error 40 times the allowed one with probability 1.3e-08"
    )
    a, b = factors(DType.F16, m=64)
    sample = check_product("c", product(a, b, DType.F16), a, b, DType.F16, 0).sample
    assert (str(sample), sample.miss_probability) == ("by sample: all 64 rows in full", 0)


def test_equal_seeds_give_equal_samples():
    a, b = factors(DType.F32)
    got = product(a, b, DType.F32)
    got[3] += 1e-4
    first, again = (check_product("c", got, a, b, DType.F32, 5) for _ in range(2))
    assert first == again


def test_what_cannot_be_sampled_is_refused():
    a, b = factors(DType.F16, m=4, n=5, k=6)
    assert why_not_sampled(a, b, DType.F16) is None
    assert why_not_sampled(a, b, DType.F8E5M2) == "an output of f8e5m2, whose roundings hide errors in sums"
    wide = np.ones((4, 1 << 20), np.int32), np.ones((1 << 20, 5), np.int32)
    assert why_not_sampled(*wide, DType.I32) == (
        "integers of int32 and int32 with 1048576 terms, whose sums f64 does not hold"
    )
    a[0, 0] = np.inf
    with pytest.raises(ToleranceError) as caught:
        check_product("c", np.zeros((4, 5), np.float16), a, b, DType.F16, 0)
    assert str(caught.value) == (
        "c: got factors with NaN or infinities, needs a product that can be sampled; verify it in full"
    )
    with pytest.raises(ToleranceError, match="needs matrices that fit together"):
        check_product("c", np.zeros((5, 4), np.float16), *factors(DType.F16, 4, 5, 6), DType.F16, 0)
