"""The default tolerance of an output follows the sums behind that output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kb_cli.face.kernel_run import KernelRun
from kb_cli.run.simulation.verdict import terms_behind

A = np.ones((16, 64), np.float16)
B = np.ones((64, 16), np.float16)
C = np.ones((16, 16), np.float32)


def terms(run: KernelRun) -> dict[str, int]:
    computed = run._outcome.computed
    assert computed is not None
    return terms_behind(computed.log, computed.tensors)


def product(tl: Any, a: Any, b: Any, c: Any) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile="16x16x16"))


def two(tl: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c))
    tl.wait(tl.composite("gemm", a[:, 0:32], b[0:32, :], out=d))


def row_sums(tl: Any, a: Any, s: Any, copy: Any) -> None:
    x = tl.load(a)
    tl.store(s, (tl.sum(x.to("f32"), axis=1) + 1.0))
    tl.store(copy, x)


def column_sums(tl: Any, a: Any, s: Any) -> None:
    tl.store(s, tl.sum(tl.load(a).to("f32"), axis=0))


def in_steps(tl: Any, a: Any, b: Any, c: Any) -> None:
    acc = None
    for k in range(0, 64, 16):
        part = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16, :]))
        acc = part if acc is None else acc + part
    tl.store(c, acc)


def held(tl: Any, a: Any, b: Any, c: Any) -> None:
    """As `in_steps`, with a sum that stays in registers."""
    acc = tl.dot(tl.load(a[:, 0:16]), tl.load(b[0:16, :]), None)
    for k in range(16, 64, 16):
        acc = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16, :]), acc)
    tl.store(c, acc)


def doubled(tl: Any, a: Any, b: Any, c: Any) -> None:
    x = tl.dot(tl.load(a), tl.load(b))
    for _ in range(40):
        x = x + x
    tl.store(c, x)


def run(kernel: Any, *arguments: Any) -> KernelRun:
    return kb.run(kernel, *arguments, chip="one_pe")


def test_a_product_has_the_terms_of_k() -> None:
    assert terms(run(product, A, B, kb.empty((16, 16), "f16"))) == {"c": 64}


def test_each_output_has_its_own_sums() -> None:
    assert terms(run(two, A, B, kb.empty((16, 16), "f16"), kb.empty((16, 16), "f16"))) == {"c": 64, "d": 32}


def test_reductions_count_for_values_that_pass_through_them_alone() -> None:
    found = terms(run(row_sums, A, kb.empty((16, 1), "f32"), kb.empty(A.shape, "f16")))
    assert found == {"s": 64, "copy": 1}
    assert terms(run(column_sums, A, kb.empty((1, 64), "f32"))) == {"s": 16}


def test_a_loop_of_products_counts_all_of_them() -> None:
    """4 products of 16 terms each, added one after the other."""
    assert terms(run(in_steps, A, B, kb.empty((16, 16), "f32"))) == {"c": 64}
    assert terms(run(held, A, B, kb.empty((16, 16), "f32"))) == {"c": 64}


def test_no_value_has_more_terms_than_all_sums_together() -> None:
    """Doubling 40 times would make 2^40 terms of 64. 44 commands have one term each, and the product 64."""
    assert terms(run(doubled, A, B, kb.empty((16, 16), "f32")))["c"] <= 64 + 50


def test_a_correct_sum_of_many_terms_passes_and_a_wrong_one_says_which_tolerance() -> None:
    x = np.random.default_rng(0).standard_normal((4, 8192)).astype(np.float32)
    r = run(column_sums, np.ascontiguousarray(x.T), kb.empty((1, 4), "f32"))
    assert r.check(x.T.astype(np.float64).sum(axis=0, keepdims=True)).startswith("s: ok")
    with pytest.raises(kb.WrongResult, match="default tolerance of f32 for sums of 8192 terms; state another with tol"):
        r.check(np.zeros((1, 4)))
    with pytest.raises(kb.WrongResult, match=r"that is the tolerance that the benchmark or the caller states$"):
        r.check(np.zeros((1, 4)), tolerance=1e-6)


def scaled(tl: Any, x: Any, y: Any, z: Any) -> None:
    """Rounds to bf16 on the way to `y`, and not on the way to `z`."""
    v = tl.load(x)
    tl.store(y, (v * 1.7).to("bf16").to("f32") * 3.0)
    tl.store(z, v * 1.7 * 3.0)


def chosen(tl: Any, x: Any, y: Any) -> None:
    """Chooses among values in bf16, and computes in f32."""
    v = tl.load(x)
    top = tl.max(v, axis=1)
    tl.store(y, v.to("f32") - top.to("f32"))


def computed(tl: Any, x: Any, y: Any) -> None:
    """Computes in the type of `x`."""
    tl.store(y, (tl.load(x) * 1.7).to("f32"))


def through_memory(tl: Any, x: Any, scratch: Any, y: Any) -> None:
    tl.store(scratch, (tl.load(x) * 1.7).to("bf16"))
    tl.store(y, tl.load(scratch).to("f32") * 3.0)


X = np.random.default_rng(1).standard_normal((16, 64)).astype(np.float32)
Y = kb.empty(X.shape, "f32")
TIMES = 5.1 * X.astype(np.float64)


def test_a_tolerance_follows_the_coarsest_rounding_on_the_way_of_each_output() -> None:
    """A rounding to bf16 is off by up to 2^-9; the tolerance of f32 is 1e-5."""
    r = run(scaled, X, Y, kb.empty(X.shape, "f32"))
    said = r.check({"y": TIMES, "z": TIMES})
    line = f"test_default_tolerance.py:{scaled.__code__.co_firstlineno + 3}"
    first, second = said.splitlines()
    assert f"; the tolerance is that of bf16, which {line} rounds to, within the default tolerance of bf16" in first
    assert "within the default tolerance of f32 for sums of 1 term" in second
    with pytest.raises(kb.WrongResult, match=rf"tolerance of bf16, which {line} rounds to, for sums of 1 term; state"):
        r.check({"y": TIMES * 1.1, "z": TIMES})
    with pytest.raises(kb.WrongResult, match="tolerance of f32 for sums"):
        r.check({"y": TIMES, "z": TIMES * 1.001})


def test_a_stated_tolerance_stays_beside_a_rounding() -> None:
    r = run(scaled, X, Y, kb.empty(X.shape, "f32"))
    with pytest.raises(kb.WrongResult, match="tolerance that the benchmark or the caller states"):
        r.check({"y": TIMES, "z": TIMES}, tolerance={"y": 1e-5, "z": 1e-5})


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_inputs_that_are_only_moved_and_chosen_round_nothing(dtype: str) -> None:
    x = kb.cast(X, dtype)
    exact = x.astype(np.float64)
    r = run(chosen, x, Y)
    expected = exact - exact.max(axis=1, keepdims=True)
    assert "default tolerance of f32" in r.check(expected)
    with pytest.raises(kb.WrongResult, match="tolerance of f32 for sums"):
        r.check(expected * 1.001)
    line = f"test_default_tolerance.py:{computed.__code__.co_firstlineno + 2}"
    assert f"default tolerance of {dtype}, which {line}" in run(computed, x, Y).check(1.7 * exact)


def test_a_rounding_is_followed_through_memory() -> None:
    r = run(through_memory, X, kb.empty(X.shape, "bf16"), Y)
    assert "tolerance of bf16, which" in r.check({"y": TIMES, "scratch": 1.7 * X.astype(np.float64)})
