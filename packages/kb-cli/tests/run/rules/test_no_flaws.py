"""Kernels that do their work well: no rule on how a program does its work finds a flaw."""

import numpy as np
import pytest
from rule_runs import rules, run

import kernbench as kb

WORK = {
    "reductions along the last axis",
    "padding of arrays",
    "waits of blocking issue",
    "bytes read again",
    "pieces and bursts",
}


def maximum(tl, x, y, block: int) -> None:
    """The largest of each column, by rows that come ahead: a reduction along the first axis."""
    cols = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    parts = (slice(start, start + 64) for start in range(0, x.shape[0], 64))
    largest = float("-inf")
    for part in tl.ahead(tl.load_async(x[rows, cols]) for rows in parts):
        largest = tl.maximum(largest, tl.max(part, axis=0))
    tl.store(y[:, cols], largest)


def add(tl, x, z, y, block: int) -> None:
    starts = range(tl.program_id() * block, y.shape[0], tl.num_programs() * block)
    parts = [slice(start, start + block) for start in starts]
    loads = tl.ahead((tl.load_async(x[part]), tl.load_async(z[part])) for part in parts)
    for part, (one, two) in zip(parts, loads, strict=True):
        tl.store(y[part], one + two)


def product(tl, a, b, y, block: int, step: int) -> None:
    rows, cols = (slice(tl.program_id(axis) * block, (tl.program_id(axis) + 1) * block) for axis in (1, 0))
    depths = (slice(start, start + step) for start in range(0, a.shape[1], step))
    acc = 0
    for left, right in tl.ahead((tl.load_async(a[rows, depth]), tl.load_async(b[depth, cols])) for depth in depths):
        acc = tl.dot(left, right, acc)
    tl.store(y[rows, cols], acc.to(y.dtype))


@pytest.mark.parametrize(
    "name", ["decode_gemv", "embedding", "gemm", "linear", "power_iteration", "softmax", "split_k_gemm", "vector_add"]
)
def test_bundled_kernels(name: str) -> None:
    assert WORK.isdisjoint(rules(run(name, chip="one_cube")))


@pytest.mark.parametrize(("chip", "n_pes"), [("one_pe", 1), ("one_cube", 8)])
def test_a_sum_of_large_blocks(chip: str, n_pes: int) -> None:
    x = np.ones(n_pes * 16384 * 6, np.float32)
    assert WORK.isdisjoint(rules(run(add, x, x.copy(), kb.empty(x.shape, "f32"), 16384, chip=chip)))


def test_maxima_along_the_first_axis() -> None:
    x = np.ones((512, 8 * 256), np.float32)
    assert WORK.isdisjoint(rules(run(maximum, x, kb.empty((1, 8 * 256), "f32"), 256, grid=(8,), chip="one_cube")))


def test_loads_that_go_from_tensor_to_tensor_cannot_be_larger() -> None:
    assert "pieces and bursts" not in rules(run("all_reduce", chip="one_cube"))


def test_a_product_in_full_blocks() -> None:
    a, b = np.ones((512, 1024), np.float16), np.ones((1024, 256), np.float16)
    y = kb.empty((512, 256), "f16")
    assert WORK.isdisjoint(rules(run(product, a, b, y, 128, 256, grid=(2, 4), chip="one_cube")))
