"""Control flow: loops, branches on loaded and computed values, constants, nested functions, tuples."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError


@triton.jit
def while_kernel(x, o, n):
    i = 0
    acc = 0.0
    while i < n:
        acc += tl.load(x + i)
        i += 1
    tl.store(o, acc)


@triton.jit
def branch_kernel(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    s = tl.sum(tl.abs(v))
    if s > 1.0:
        v = v / s
    mx = tl.max(v).to(tl.int32)
    for _ in range(mx + 1):
        v += 1
    tl.store(o + i, v, mask=i < n)


@triton.jit
def argmax_kernel(x, o, oi, N, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + p * N + i, mask=i < N, other=-float("inf"))
    m, j = tl.max(v, 0, return_indices=True)
    tl.store(o + p, m)
    tl.store(oi + p, j)
    k = tl.argmax(v, axis=0)
    tl.store(x + p * N + k, -100.0)


def test_a_computed_index_is_an_address():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 30), np.float32)
    x0 = x.copy()
    o = np.zeros(4, np.float32)
    oi = np.zeros(4, np.int32)
    argmax_kernel[4,](x, o, oi, 30, B=32)
    np.testing.assert_array_equal(o, x0.max(1))
    np.testing.assert_array_equal(oi, x0.argmax(1))
    assert (x[np.arange(4), oi] == -100).all()


@triton.jit
def static_range_kernel(x, o, n, B: tl.constexpr):
    pid = tl.program_id(0)
    off = pid.to(tl.int64) * B + tl.arange(0, B).to(tl.int64)
    m = off < n
    v = tl.load(x + off, m, other=0)
    c = 0
    for i in tl.static_range(0, 4):
        if i % 2 == 0:
            v = v + i
        else:
            v = v * 1.5
        c += i
    tl.store(o + off, v + c, mask=m)


@triton.jit
def helper(ptr, i, m, other: tl.constexpr = 0.0):
    return (tl.load(ptr + i, mask=m, other=other), tl.sum(m.to(tl.int32)))


@triton.jit
def tuple_kernel(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, c = helper(x, i, i < n)
    t = (a, a * 2)
    for j in tl.static_range(2):
        tl.store(o + j * B + i, t[j] + c)


@triton.jit
def assert_kernel(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    assert n < 100, "few"
    index = tl.load(x + at)
    assert index >= 0 and index < n, "an index inside"  # noqa: PT018
    tl.store(y + at, index * 2)


def test_an_assertion_of_a_block_is_checked():
    x, y = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    assert_kernel[1,](x, y, 8, B=8)
    assert y.tolist() == [2 * each for each in range(8)]
    with pytest.raises(KernelError, match=r"a tl\.device_assert that does not hold at \[7\]: an index inside"):
        assert_kernel[1,](x, y, 7, B=8)


def drawn(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)


X, LONG = drawn(20), drawn(50)
FIRST = np.where(np.arange(8) < 5, X[:8], 0)
CASES = {
    "a while loop": (while_kernel, (1,), (X[:9],), (9,), {}, X[:9].sum(keepdims=True), 1e-5),
    "a branch and a loop by computed values": (
        branch_kernel, (1,), (X,), (20,), {"B": 32},
        X / abs(X).sum() + int((X / abs(X).sum()).max()) + 1, 1e-5, 1e-6,
    ),
    "a static range": (static_range_kernel, (4,), (LONG,), (50,), {"B": 16}, (LONG * 1.5 + 2) * 1.5 + 6, 1e-5),
    "functions that return tuples": (
        tuple_kernel, (1,), (X[:8],), (5,), {"B": 8}, np.stack([FIRST + 5, 2 * FIRST + 5]), 1e-6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_control_flow(case, check):
    check(*case)
