"""Steering: loops, branches on loaded and computed values, constants, nested functions, tuples."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError


@triton.jit
def k_while(x, o, n):
    i = 0
    acc = 0.0
    while i < n:
        acc += tl.load(x + i)
        i += 1
    tl.store(o, acc)


def test_while_scalar():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(9, np.float32)
    o = np.zeros(1, np.float32)
    k_while[1,](x, o, 9)
    np.testing.assert_allclose(o[0], x.sum(), rtol=1e-05)


@triton.jit
def k_steer(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    s = tl.sum(tl.abs(v))
    if s > 1.0:
        v = v / s
    mx = tl.max(v).to(tl.int32)
    for _ in range(mx + 1):
        v += 1
    tl.store(o + i, v, mask=i < n)


def test_steer():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20, np.float32)
    o = np.zeros(20, np.float32)
    k_steer[1,](x, o, 20, B=32)
    s = np.abs(x).sum()
    np.testing.assert_allclose(o, x / s + 1, rtol=1e-05, atol=1e-06)


@triton.jit
def k_argmax(x, o, oi, N, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + p * N + i, mask=i < N, other=-float("inf"))
    m, j = tl.max(v, 0, return_indices=True)
    tl.store(o + p, m)
    tl.store(oi + p, j)
    k = tl.argmax(v, axis=0)
    tl.store(x + p * N + k, -100.0)


def test_argmax_steer():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 30), np.float32)
    x0 = x.copy()
    o = np.zeros(4, np.float32)
    oi = np.zeros(4, np.int32)
    k_argmax[4,](x, o, oi, 30, B=32)
    np.testing.assert_array_equal(o, x0.max(1))
    np.testing.assert_array_equal(oi, x0.argmax(1))
    assert (x[np.arange(4), oi] == -100).all()


@triton.jit
def odd_a(x, o, n, B: tl.constexpr):
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


def test_staticr():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50, np.float32)
    o = np.zeros(50, np.float32)
    odd_a[4,](x, o, 50, B=16)
    v = x.copy()
    for i in range(4):
        v = v + i if i % 2 == 0 else v * 1.5
    np.testing.assert_allclose(o, v + 6, rtol=1e-05)


@triton.jit
def helper(ptr, i, m, other: tl.constexpr = 0.0):
    return (tl.load(ptr + i, mask=m, other=other), tl.sum(m.to(tl.int32)))


@triton.jit
def k_tuple(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, c = helper(x, i, i < n)
    t = (a, a * 2)
    for j in tl.static_range(2):
        tl.store(o + j * B + i, t[j] + c)


def test_tuples():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(8, np.float32)
    o = np.zeros((2, 8), np.float32)
    k_tuple[1,](x, o, 5, B=8)
    m = np.arange(8) < 5
    a = np.where(m, x, 0)
    np.testing.assert_allclose(o, np.stack([a + 5, 2 * a + 5]), rtol=1e-06)


@triton.jit
def odd_assert(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    assert n < 100, "few"
    index = tl.load(x + at)
    assert index >= 0 and index < n, "an index inside"  # noqa: PT018
    tl.store(y + at, index * 2)


def test_assertions_of_blocks():
    x, y = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    odd_assert[1,](x, y, 8, B=8)
    assert y.tolist() == [2 * each for each in range(8)]
    with pytest.raises(KernelError, match=r"a tl\.device_assert that does not hold: an index inside"):
        odd_assert[1,](x, y, 7, B=8)
