"""Rows that do not fit the register file: results, and the commands and pieces that they take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml

from kb_dataexec import Executor, MemoryLogWriter, OpLog, cast, numpy_dtype, sanitize
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KernelError
from kb_topology import loads_topology

ROOT = Path(__file__).parents[1]
KINDS = {numpy_dtype(dtype): dtype for dtype in DType}
Array = npt.NDArray[Any]
X = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)


def run(kernel: Callable[..., None], arrays: list[Array], registers: str = "2 KiB", issue: str = "blocking") -> OpLog:
    """Run *kernel* on a PE with so many *registers*; the last of *arrays* takes the result of pass 2."""
    spec = yaml.safe_load((ROOT / "topologies/one_pe.yaml").read_text(encoding="utf-8"))
    nodes = spec["cube"]["pe_template"]["nodes"]
    nodes["pe_fetch_store"]["memory"]["size"] = registers
    nodes["pe_cpu"]["issue"] = issue
    engine = Engine(loads_topology(yaml.safe_dump(spec, sort_keys=False), "small.yaml"), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(f"t{n}", each, KINDS[each.dtype]) for n, each in enumerate(arrays)]
    host.launch(kernel, *tensors, pes=[0])
    log = engine.close_log()
    assert isinstance(log, OpLog)
    assert engine.initial_memory is not None
    assert sanitize(log) == []
    found = [
        np.array(read_tensor(Executor(log, engine.initial_memory, mode, fuse_from=2).run(), tensors[-1]))  # type: ignore[arg-type]
        for mode in ("tile", "fused")
    ]
    assert found[0].tobytes() == found[1].tobytes()
    arrays[-1][...] = found[0]
    return log


def softmax(tl: Any, x: Any, y: Any) -> None:
    wide = tl.load(x).to("f32")
    powers = tl.exp(wide - tl.max(wide, axis=1))
    tl.store(y, (powers / tl.sum(powers, axis=1)).to(y.dtype))


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("shape", [(1, 1000), (3, 997)])
def test_a_softmax_goes_over_its_pieces_three_times(shape: tuple[int, int], dtype: DType, issue: str) -> None:
    x = cast(X[: shape[0], : shape[1]], dtype)
    y = np.zeros_like(x)
    log = run(softmax, [x, y], issue=issue)
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    rounding = {DType.F32: 3e-6, DType.F16: 1e-3, DType.BF16: 8e-3}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), powers / powers.sum(1, keepdims=True), rtol=rounding, atol=1e-7)
    assert len(set(log.ops["command_seq"].tolist())) == 5


def test_a_layer_norm_under_a_mask() -> None:
    def kernel(tl: Any, x: Any, w: Any, y: Any) -> None:
        value, n = tl.load(x), 1000
        mean = tl.sum(value, axis=1) / n
        centred = tl.where(tl.arange(0, n) < 997, value - mean, 0.0)
        tl.store(y, centred * tl.rsqrt(tl.sum(centred * centred, axis=1) / n + 1e-5) * tl.load(w))

    y = np.zeros_like(X)
    run(kernel, [X, X[1:2].copy(), y])
    centred = X.astype(np.float64) - X.mean(1, keepdims=True, dtype=np.float64)
    centred[:, 997:] = 0
    expected = centred / np.sqrt((centred**2).sum(1, keepdims=True) / 1000 + 1e-5) * X[1:2]
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6)


def test_a_causal_softmax_of_all_rows_at_once() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        rows, cols = tl.arange(0, 3)[:, None], tl.arange(0, 1000)[None, :]
        scores = tl.where(rows + 400 >= cols, tl.load(x), -np.inf)
        powers = tl.exp(scores - tl.max(scores, axis=1))
        tl.store(y, powers / tl.sum(powers, axis=1))

    y = np.zeros_like(X)
    run(kernel, [X, y])
    scores = np.where(np.arange(3)[:, None] + 400 >= np.arange(1000), X.astype(np.float64), -np.inf)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=3e-6, atol=1e-8)


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_a_search_finds_the_first_extreme_and_the_first_nan(function: str) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, getattr(tl, function)(tl.load(x), axis=1))

    odd = X.copy()
    odd[0, 300] = odd[0, 700] = np.nan
    odd[1] = 7.0
    odd[2, 500] = odd[2, 900] = np.inf if function == "argmax" else -np.inf
    y = np.zeros((3, 1), np.int32)
    run(kernel, [odd, y])
    assert y.tolist() == [[300], [0], [500]]


@pytest.mark.parametrize("function", ["argmax_number", "argmin_number"])
def test_a_search_among_numbers_leaves_out_nan_in_rows_of_several_pieces(function: str) -> None:
    extreme = function.removeprefix("arg")

    def find(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl._along(function, tl.load(x), 1))

    def reduce(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl._along(extreme, tl.load(x), 1))

    odd = X.copy()
    odd[0, 300] = odd[0, 700] = np.nan
    odd[1] = np.nan
    odd[2, :999] = np.nan
    y, z = np.zeros((3, 1), np.int32), np.zeros((3, 1), np.float32)
    run(find, [odd, y])
    run(reduce, [odd, z])
    best = (np.nanargmax if function == "argmax_number" else np.nanargmin)(odd[0])
    assert y.tolist() == [[best], [0], [999]]
    np.testing.assert_array_equal(z, [[odd[0, best]], [np.nan], [odd[2, 999]]])


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        ("cumsum", np.cumsum), ("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate),
    ],
)  # fmt: skip
def test_a_scan_goes_on_where_the_piece_before_ended(function: str, reference: Callable[..., Array]) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, getattr(tl, function)(tl.load(x), axis=1))

    whole = np.random.default_rng(1).integers(-9, 9, (3, 1000)).astype(np.int32)
    y = np.zeros_like(whole)
    run(kernel, [whole, y])
    assert (y == reference(whole, axis=1)).all()


@pytest.mark.parametrize(
    ("function", "reference"),
    [("reduce_and", np.bitwise_and), ("reduce_or", np.bitwise_or), ("xor_sum", np.bitwise_xor), ("prod", np.multiply)],
)
def test_integers_are_reduced_exactly(function: str, reference: np.ufunc) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, getattr(tl, function)(tl.load(x), axis=1))

    whole = np.random.default_rng(1).integers(-(2**31), 2**31, (2, 1000)).astype(np.int32) | 1
    y = np.zeros((2, 1), np.int32)
    run(kernel, [whole, y])
    with np.errstate(all="ignore"):
        assert (y == reference.reduce(whole, axis=1, keepdims=True, dtype=np.int32)).all()


def test_a_narrow_sum_is_rounded_once() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.sum(tl.load(x), axis=1))

    ones = np.ones((1, 4097), np.float16)  # in f16, 2048 + 1 is 2048
    y = np.zeros((1, 1), np.float16)
    run(kernel, [ones, y])
    assert y[0, 0] == np.float16(4096)


def test_a_vocabulary_of_a_bundled_chip() -> None:
    x = cast(np.random.default_rng(2).standard_normal((1, 128256)), DType.BF16)
    y = np.zeros_like(x)
    log = run(softmax, [x, y], registers="512 KiB")
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max())
    np.testing.assert_allclose(y.astype(np.float64), powers / powers.sum(), rtol=8e-3)
    assert len(set(log.ops["command_seq"].tolist())) == 5


def test_a_scan_in_reverse_of_a_row_that_does_not_fit_is_refused() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.cumsum(tl.load(x), axis=1, reverse=True))

    with pytest.raises(
        KernelError, match="values of 8064 bytes at a time, which no strip of rows or columns makes fit"
    ):
        run(kernel, [X[:1].copy(), np.zeros((1, 1000), np.float32)])
