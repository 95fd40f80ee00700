"""kb-dataexec[torch]: what torch computes, against numpy. `nox -s extras` installs it; on a machine with a GPU,
`KB_TORCH_DEVICE=cuda` tests that."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kb_dataexec import Executor, cast, compare
from kb_dataexec.arrays import FUNCTIONS
from kb_dataexec.backends import BackendError, NumpyBackend, load_backend, using
from kb_messages import DType

sys.path.insert(0, str(Path(__file__).parents[1] / "packages/kb-dataexec/tests"))
from dataexec_gemm_log import GemmProblem
from dataexec_math_log import EpilogueProblem, SoftmaxProblem

Array = npt.NDArray[Any]
DEVICE = os.environ.get("KB_TORCH_DEVICE", "cpu")
NUMPY, TORCH = NumpyBackend(), load_backend("torch", DEVICE)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40, 7.25]
WORDS = [0, 1, -1, 2, -3, 63, 64, 65, -64, 2**62, -(2**63), 2**63 - 1]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16, DType.F8E4M3])
def test_products_of_floats_are_full_f32(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a, b = (cast(rng.uniform(-1, 1, shape), dtype) for shape in ((65, 700), (700, 33)))
    exact, size = (f(a.astype(np.float64)) @ f(b.astype(np.float64)) for f in (np.array, np.abs))
    got = TORCH.matmul(a, b)
    assert got.dtype == np.float32
    assert (np.abs(got - exact) <= np.sqrt(700) * 2.0**-24 * size + 2.0**-23 * np.abs(exact)).all()  # tf32: 2^-11


@pytest.mark.parametrize("kinds", [("i1", "i1"), ("u1", "i1"), ("i4", "i4"), ("i8", "u4")])
def test_products_of_integers_are_exact(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(1)
    a, b = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        for kind, shape in zip(kinds, ((9, 300), (300, 7)), strict=True)
    )
    got = TORCH.matmul(a, b)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, NUMPY.matmul(a, b))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int32])
def test_stacks_of_matrices_are_multiplied_one_by_one(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((3, 4, 5), (3, 5, 2)))
    got, expected = (backend.matmul(a, b) for backend in (TORCH, NUMPY))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_factors_may_be_read_only_and_transposed() -> None:
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    a.setflags(write=False)
    np.testing.assert_array_equal(TORCH.matmul(a.T, a), a.T @ a)


BY_BACKEND = {name: each for name, each in FUNCTIONS.items() if not (each.generates or each.spreads or each.is_layout)}
"""The functions that backends compute."""


@pytest.mark.parametrize("op", [name for name, each in BY_BACKEND.items() if not each.int_only])
def test_functions_of_floats_are_numpys_within_a_few_roundings(op: str) -> None:
    function = FUNCTIONS[op]
    rng = np.random.default_rng(2)
    line = np.concatenate([np.array(SPECIAL, np.float32), rng.uniform(-6, 6, 50).astype(np.float32)])
    arguments = [line.reshape(1, -1), line.reshape(-1, 1), line.reshape(1, -1)][: function.arity]
    axis = 1 if function.has_axis else None
    if function.has_axis:
        arguments = [rng.uniform(-6, 6, (5, 70)).astype(np.float32)]
    expected, got = (backend.apply(op, arguments, axis) for backend in (NUMPY, TORCH))
    assert got.dtype == expected.dtype
    scale = 16 * 2.0**-24 * np.abs(expected.astype(np.float64)) + 1e-6
    if function.scans and not function.exact:  # what is added may cancel
        scale += arguments[0].shape[1] * 2.0**-24 * np.abs(arguments[0]).sum(axis=1, keepdims=True)
    found = compare(op, got, expected, np.where(np.isfinite(scale), scale, 0.0))
    assert found.ok, str(found)


@pytest.mark.parametrize("op", [name for name, each in BY_BACKEND.items() if not each.float_only])
def test_functions_of_integers_are_numpys(op: str) -> None:
    function = FUNCTIONS[op]
    line = np.array([WORDS], np.int64)
    arguments = [line, line.T, line[:, ::-1], *[line] * 3, np.array([[10]]), np.array([[2]])][: function.arity]
    expected, got = (backend.apply(op, arguments, 1 if function.has_axis else None) for backend in (NUMPY, TORCH))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["max", "min", "sum"])
def test_reductions_let_nan_through(op: str, axis: int) -> None:
    x = np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)
    np.testing.assert_allclose(TORCH.apply(op, [x], axis), NUMPY.apply(op, [x], axis))


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize(
    "problem",
    [
        GemmProblem(37, 29, 230, (16, 8, 50)),
        GemmProblem(37, 29, 23, (16, 8, 5), DType.I8),
        GemmProblem(37, 29, 23, (16, 8, 5), DType.F8E4M3),
        EpilogueProblem(37, 29, 23, (16, 8, 5), DType.BF16),
        SoftmaxProblem(21, 33, 4),
    ],
    ids=lambda problem: f"{type(problem).__name__} {problem.dtype}",
)
def test_a_log_gives_its_reference_under_the_same_tolerance(problem: Any, mode: Any) -> None:
    after = Executor(problem.log(), problem.memory(), mode, TORCH).run()
    found = compare("c", problem.result(after), *problem.reference())
    assert found.ok, str(found)


def test_the_executor_computes_with_torch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyBackend, "matmul", None)
    monkeypatch.setattr(NumpyBackend, "apply", None)
    problem = EpilogueProblem(37, 29, 23, (16, 8, 5))
    Executor(problem.log(), problem.memory(), "fused", TORCH).run()


def test_lower_precision_that_others_switched_on_stays_theirs() -> None:
    torch: Any = __import__("torch")
    switch = torch.backends.cuda.matmul
    before = switch.fp32_precision
    switch.fp32_precision = "tf32"
    try:
        test_products_of_floats_are_full_f32(DType.F32)
        assert switch.fp32_precision == "tf32"
    finally:
        switch.fp32_precision = before


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        BackendError, match=r"^backend torch: got device 'cuda:99' \(.*\), needs a device of this torch$"
    ):
        load_backend("torch", "cuda:99")
    with pytest.raises(BackendError, match=re.escape("device 'abacus'")):
        load_backend("torch", "abacus")


def test_the_backend_ends_with_its_block() -> None:
    from kb_dataexec.backends import current

    with using(TORCH):
        assert current() is TORCH
    assert current().name == "numpy"
