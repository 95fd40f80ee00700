"""Values that do not fit the register file: results, and the commands and pieces that they take."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from chip_specs import changed_chip, chip_spec, nodes_of_pe

from kb_dataexec import Executor, MemoryLogWriter, OpLog, cast, numpy_dtype, sanitize
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KernelError, OpKind

KINDS = {numpy_dtype(dtype): dtype for dtype in DType}
Array = npt.NDArray[Any]
X = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)


def run(kernel: Callable[..., None], arrays: list[Array], registers: str = "2 KiB", issue: str = "blocking") -> OpLog:
    """Run *kernel* on a PE with so many *registers*; the last of *arrays* takes the result of pass 2."""
    spec = chip_spec("one_pe")
    nodes = nodes_of_pe(spec)
    nodes["pe_fetch_store"]["memory"]["size"] = registers
    nodes["pe_cpu"]["issue"] = issue
    engine = Engine(changed_chip(spec), MemoryLogWriter())
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


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
@pytest.mark.parametrize(
    ("function", "reference"),
    [
        ("cumsum", np.cumsum), ("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate),
    ],
)  # fmt: skip
def test_a_scan_in_reverse_turns_its_rows_round(function: str, reference: Callable[..., Array], issue: str) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, getattr(tl, function)(tl.load(x) * 2, axis=1, reverse=True) + 1)

    whole = np.random.default_rng(1).integers(-9, 9, (2, 1000)).astype(np.int32)
    y = np.zeros_like(whole)
    run(kernel, [whole, y], issue=issue)
    assert (y == reference(whole[:, ::-1] * 2, axis=1)[:, ::-1] + 1).all()


@pytest.mark.parametrize(("shape", "registers"), [((2, 999), "2 KiB"), ((20, 101), "256 B")])
def test_narrow_integers_are_scanned_in_reverse_as_wide_ones(shape: tuple[int, int], registers: str) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.cumsum(tl.load(x), axis=1, reverse=True))

    whole = np.random.default_rng(1).integers(-(2**15), 2**15, shape).astype(np.int16)
    y = np.zeros(shape, np.int32)
    run(kernel, [whole, y], registers=registers)
    assert (y == np.cumsum(whole[:, ::-1].astype(np.int32), axis=1)[:, ::-1]).all()


def ordered(tl: Any, name: str, x: Any) -> Any:
    """The value *x* of 24 x 40 f32, 3840 bytes, with its elements in another order."""
    return {
        "transposed": lambda: -x.T,
        "permuted": lambda: -tl.permute(x.reshape(4, 6, 40), (2, 0, 1)),
        "turned": lambda: tl.flip(x, axis=0),
        "mirrored": lambda: tl.flip(x.ravel()),
        "repeated": lambda: tl.broadcast_to(x.reshape(1, 24, 40), (2, 24, 40)),
        "joined": lambda: tl.join(x, x + 1),
        "interleaved": lambda: tl.interleave(x, x + 1),
        "behind": lambda: tl.cat(x, x + 1),
        "beside": lambda: tl.cat(x, x + 1, axis=1),
        "longer": lambda: tl.cat(x.reshape(960, 1), (x + 1).reshape(1, 960).reshape(960, 1)),
        "odd": lambda: tl.split(x.reshape(24, 20, 2))[1],
    }[name]()


def as_ordered(name: str, x: Array) -> Array:
    """The same in numpy."""
    return {
        "transposed": lambda: -x.T,
        "permuted": lambda: -x.reshape(4, 6, 40).transpose(2, 0, 1),
        "turned": lambda: x[::-1],
        "mirrored": lambda: x.ravel()[::-1],
        "repeated": lambda: np.stack([x, x]),
        "joined": lambda: np.stack([x, x + 1], axis=-1),
        "interleaved": lambda: np.stack([x, x + 1], axis=-1).reshape(24, 80),
        "behind": lambda: np.concatenate([x, x + 1]),
        "beside": lambda: np.concatenate([x, x + 1], axis=1),
        "longer": lambda: np.concatenate([x.reshape(960, 1), x.reshape(960, 1) + 1]),
        "odd": lambda: x.reshape(24, 20, 2)[..., 1],
    }[name]()


ORDERS = (
    "transposed", "permuted", "turned", "mirrored", "repeated", "joined", "interleaved", "behind", "beside", "longer",
    "odd",
)  # fmt: skip


@pytest.mark.parametrize("registers", ["5 KiB", "1 KiB", "200 B"])
@pytest.mark.parametrize("order", ORDERS)
def test_elements_are_moved_block_by_block(order: str, registers: str) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, ordered(tl, order, tl.load(x)))

    x = X[:1, :960].reshape(24, 40).copy()
    expected = as_ordered(order, x)
    y = np.zeros(expected.shape, np.float32)
    run(kernel, [x, y], registers=registers)
    assert y.tobytes() == np.ascontiguousarray(expected).tobytes()


def test_blocks_of_a_transposed_value_are_as_large_as_fits() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, -tl.load(x).T)

    x, y = X[:1, :960].reshape(24, 40).copy(), np.zeros((40, 24), np.float32)
    log = run(kernel, [x, y], registers="2 KiB")
    # 3840 bytes and as many of the result: a quarter, 10 columns of 24 f32 and 10 rows of 24, takes 1920. So there are
    # a load, four programs of one MATH each, the negation in strips, and a store.
    assert len(set(log.ops["command_seq"].tolist())) == 7
    assert (y == -x.T).all()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("registers", ["3 KiB", "1 KiB"])
def test_a_row_is_sorted_by_blocks(registers: str, descending: bool, axis: int) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.sort(tl.load(x), axis, descending))

    x = X[:2, :499].copy()
    x[0, 7] = np.nan
    x = x if axis else np.ascontiguousarray(x.T)
    y = np.zeros_like(x)
    run(kernel, [x, y], registers=registers)
    expected = np.sort(x, axis)
    assert y.tobytes() == np.ascontiguousarray(np.flip(expected, axis) if descending else expected).tobytes()


def test_a_merge_of_sorted_blocks_takes_the_last_stage_of_a_sort() -> None:
    """A PE has 128 lanes at 1 GHz. 300 f32 do not fit 2 KiB of registers beside their result, so there are 4 blocks."""

    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.sort(tl.load(x)))

    log = run(kernel, [X[:1, :300].copy(), np.zeros((1, 300), np.float32)])
    times = [
        (json.loads(each.params)["op"], each.t_end_ps - each.t_start_ps)
        for each in log.records()
        if each.kind is OpKind.MATH
    ]
    # 75 elements are a group. Their sort has 7 stages of 1 to 7 steps.
    assert [each for each in times if each[0] == "sort"] == [("sort", 28_000)] * 4
    # Batcher's network of 4 blocks has 5 comparators. 150 elements are two groups, and their last stage has 8 steps.
    assert [each for each in times if each[0] == "merge"] == [("merge", 2 * 8_000)] * 5


def test_the_largest_of_a_long_row() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.topk(tl.load(x), 5))

    y = np.zeros((1, 5), np.float32)
    run(kernel, [X[:1].copy(), y])
    assert (y == np.sort(X[:1])[:, ::-1][:, :5]).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_a_long_index_chooses_part_by_part(axis: int) -> None:
    def kernel(tl: Any, i: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.gather(tl.load(x), tl.load(i), axis))

    rng = np.random.default_rng(3)
    i, x = rng.integers(0, 200, (2, 700)).astype(np.int32), X[:2, :200].copy()
    if axis == 0:
        i, x = np.ascontiguousarray(i.T), np.ascontiguousarray(x.T)
    y = np.zeros(i.shape, np.float32)
    run(kernel, [i, x, y])
    assert (y == np.take_along_axis(x, i, axis)).all()


def test_many_integers_are_counted_part_by_part() -> None:
    def kernel(tl: Any, i: Any, y: Any) -> None:
        tl.store(y, tl.histogram(tl.load(i), 50))

    i = np.random.default_rng(3).integers(-3, 55, 1777).astype(np.int32)
    y = np.zeros(50, np.int32)
    run(kernel, [i, y])
    assert (y == np.bincount(i[(i >= 0) & (i < 50)], minlength=50)).all()


def test_a_function_of_the_kernel_goes_along_a_row_that_does_not_fit() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.associative_scan(tl.load(x), 1, lambda one, two: one + two, reverse=True))

    whole = np.random.default_rng(1).integers(-9, 9, (2, 1000)).astype(np.int32)
    y = np.zeros_like(whole)
    run(kernel, [whole, y])
    assert (y == np.cumsum(whole[:, ::-1], axis=1)[:, ::-1]).all()


def test_a_gather_from_a_row_that_does_not_fit_is_refused() -> None:
    def kernel(tl: Any, i: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.gather(tl.load(x), tl.load(i), 1))

    with pytest.raises(KernelError, match="which no strip of rows or columns makes fit"):
        run(kernel, [np.zeros((1, 9), np.int32), X[:1].copy(), np.zeros((1, 9), np.float32)])
