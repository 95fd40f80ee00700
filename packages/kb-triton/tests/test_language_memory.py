"""Loads and stores: masks of every shape, gathers, other elements, bounds, descriptors."""

import numpy as np

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def k_causal(q, o, S, B: tl.constexpr):
    r = tl.arange(0, B)
    c = tl.arange(0, B)
    x = tl.load(q + r[:, None] * B + c[None, :])
    x = tl.where(r[:, None] >= c[None, :], x, float("-inf"))
    x = x + tl.where(r[:, None] - c[None, :] < 4, 0.0, -1.0)
    tl.store(o + r[:, None] * B + c[None, :], tl.exp(x))


def test_causal():
    rng = np.random.default_rng(0)
    B = 16
    q = rng.standard_normal((B, B), np.float32)
    o = np.zeros_like(q)
    k_causal[1,](q, o, B, B=B)
    r = np.arange(B)
    e = np.where(r[:, None] >= r[None], q, -np.inf) + np.where(r[:, None] - r[None] < 4, 0, -1)
    np.testing.assert_allclose(o, np.exp(e), rtol=1e-05)


@triton.jit
def k_gather(src, idx, dst, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    j = tl.load(idx + i, mask=m, other=0)
    v = tl.load(src + j, mask=m & (j >= 0), other=-1.0)
    tl.store(dst + i, v, mask=m)


def test_gather():
    rng = np.random.default_rng(0)
    src = rng.standard_normal(50, np.float32)
    idx = rng.integers(-3, 50, 30).astype(np.int64)
    d = np.zeros(30, np.float32)
    k_gather[2,](src, idx, d, 30, B=16)
    np.testing.assert_array_equal(d, np.where(idx >= 0, src[idx], -1))


@triton.jit
def k_maskdata(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    m = (i % 3 == 0) & (i < n)
    v = tl.load(x + i, mask=m, other=0.0)
    w = tl.where(m, v, 7.0) + m.to(tl.float32) + i
    tl.store(o + i, w, mask=i & 1 == 0)


def test_maskdata():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(16, np.float32)
    o = np.zeros(16, np.float32)
    k_maskdata[1,](x, o, 13, B=16)
    i = np.arange(16)
    m = (i % 3 == 0) & (i < 13)
    np.testing.assert_allclose(o, np.where(i & 1, 0, np.where(m, x, 7) + m + i), rtol=1e-06)


@triton.jit
def k_pendmask(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, v, mask=v > 0)


def test_pending_mask():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(16, np.float32)
    o = np.zeros(16, np.float32)
    k_pendmask[1,](x, o, 13, B=16)
    np.testing.assert_array_equal(o, np.where(x > 0, x, 0))


@triton.jit
def k_pending_other(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    z = tl.load(y + i) * 3
    tl.store(o + i, tl.load(x + i, mask=i < n, other=z))


def test_pending_other():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(16, np.float32)
    y = rng.standard_normal(16, np.float32)
    o = np.zeros(16, np.float32)
    k_pending_other[1,](x, y, o, 9, B=16)
    np.testing.assert_allclose(o, np.where(np.arange(16) < 9, x, y * 3), rtol=1e-06)


@triton.jit
def k_desc(a, b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    e = tl.make_tensor_descriptor(b, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    x = d.load([tl.program_id(0) * BM, tl.program_id(1) * BN])
    e.store([tl.program_id(0) * BM, tl.program_id(1) * BN], x * 2)


def test_desc():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((20, 24), np.float32)
    b = np.zeros_like(a)
    k_desc[2, 2](a, b, 20, 24, BM=16, BN=16)
    np.testing.assert_array_equal(b, a * 2)


@triton.jit
def k_trans(a, b, N: tl.constexpr, M: tl.constexpr):
    r = tl.arange(0, N)
    c = tl.arange(0, M)
    x = tl.load(a + r[:, None] * M + c[None, :])
    y = tl.trans(x) * 2
    tl.store(b + c[:, None] * N + r[None, :], y)


def test_trans_math():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((8, 16), np.float32)
    b = np.zeros((16, 8), np.float32)
    k_trans[1,](a, b, N=8, M=16)
    np.testing.assert_array_equal(b, a.T * 2)


@triton.jit
def k_colload(a, b, N: tl.constexpr, M: tl.constexpr):
    r = tl.arange(0, N)
    c = tl.arange(0, M)
    x = tl.load(a + c[:, None] + r[None, :] * M)
    tl.store(b + c[:, None] * N + r[None, :], x + 1)


def test_col_load_math():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((8, 16), np.float32)
    b = np.zeros((16, 8), np.float32)
    k_colload[1,](a, b, N=8, M=16)
    np.testing.assert_array_equal(b, a.T + 1)


@triton.jit
def k_sumatomic(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(o, tl.sum(v, axis=0))


def test_sum_atomic():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50, np.float32)
    o = np.zeros(1, np.float32)
    k_sumatomic[4,](x, o, 50, B=16)
    np.testing.assert_allclose(o[0], x.sum(), rtol=1e-05, atol=1e-05)
