"""The tolerance of a product without a second product, against the one with it."""

import numpy as np
import pytest

from kb_dataexec.verify import compare, gemm_tolerance, product_tolerance
from kb_messages import DType

MODULE = "kb_dataexec.verify.product_tolerance"
SCALES = {
    "alike": lambda rng, shape: np.ones(shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal": lambda rng, shape: np.exp(3 * rng.standard_normal(shape)),
    "sparse": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.01),
}


@pytest.fixture
def by_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules[MODULE], "EXACT_UP_TO", 0)


def exact(a, b, dtype):
    wide = a.astype(np.float64), b.astype(np.float64)
    return gemm_tolerance(wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]), a.shape[1], dtype)


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("k", [1, 63, 64, 65, 1000])
def test_the_bound_by_norms_is_never_below_the_product(by_norms, kind, k):
    rng = np.random.default_rng(k)
    a, b = (SCALES[kind](rng, shape).astype(np.float32) for shape in ((37, k), (k, 21)))
    found = product_tolerance(a.astype(np.float64) @ b.astype(np.float64), a, b, DType.F32)
    assert (found >= exact(a, b, DType.F32)).all()


@pytest.mark.parametrize(("kind", "most"), [("alike", 1.001), ("normal", 1.75)])
def test_the_bound_by_norms_is_near(by_norms, kind, most):
    rng = np.random.default_rng(0)
    a, b = (SCALES[kind](rng, shape).astype(np.float32) for shape in ((37, 1024), (1024, 21)))
    found = product_tolerance(a.astype(np.float64) @ b.astype(np.float64), a, b, DType.F32)
    assert (found / exact(a, b, DType.F32)).max() < most


def test_a_small_product_has_the_tolerance_of_its_own_terms():
    a, b = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((9, 70), (70, 5)))
    found = product_tolerance(a.astype(np.float64) @ b.astype(np.float64), a, b, DType.F16)
    np.testing.assert_allclose(found, exact(a, b, DType.F16), rtol=1e-6)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
@pytest.mark.parametrize("lost", [1, 8, 32])
def test_lost_terms_are_found_with_the_bound_by_norms(by_norms, dtype, lost):
    a, b = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((40, 4096), (4096, 30)))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    got = expected - a[:, :lost].astype(np.float64) @ b[:lost].astype(np.float64)
    assert compare("c", expected, expected, product_tolerance(expected, a, b, dtype)).ok
    found, sharper = (
        compare("c", got, expected, allowed).n_wrong
        for allowed in (product_tolerance(expected, a, b, dtype), exact(a, b, dtype))
    )
    assert found > 0.95 * sharper > 0.4 * expected.size


def test_integers_are_exact():
    a, b = np.ones((3, 4), np.int8), np.ones((4, 2), np.int8)
    assert (product_tolerance(np.full((3, 2), 4.0), a, b, DType.I32) == 0).all()
