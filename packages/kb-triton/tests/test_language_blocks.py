"""Reductions, scans, shapes and orders of blocks."""

import math

import numpy as np

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.language import libdevice


@triton.jit
def k_scan(x, o, o2, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(o + i, tl.cumsum(v, 0), mask=i < n)
    f = (v > 0).to(tl.int32)
    tl.store(o2 + i, tl.cumsum(f, axis=0) - f, mask=i < n)


def test_scan():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40, np.float32)
    o = np.zeros(40, np.float32)
    o2 = np.zeros(40, np.int32)
    k_scan[1,](x, o, o2, 40, B=64)
    np.testing.assert_allclose(o, np.cumsum(x), rtol=0.0001, atol=1e-05)
    fl = (x > 0).astype(int)
    np.testing.assert_array_equal(o2, np.cumsum(fl) - fl)


@triton.jit
def k_3d(x, o, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    v = tl.load(x + a * B * C + b * C + c)
    s = tl.sum(v, 1)
    tl.store(o + tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :], s)


def test_red3d():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 8, 16), np.float32)
    o = np.zeros((4, 16), np.float32)
    k_3d[1,](x, o, A=4, B=8, C=16)
    np.testing.assert_allclose(o, x.sum(1), rtol=1e-05, atol=1e-05)


@triton.jit
def k_outer(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    p = a[:, None, None] * b[None, :, None] + b[None, None, :]
    tl.store(o + i[:, None], tl.sum(tl.sum(p, 2), 1)[:, None])


def test_bc3d():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(8, np.float32)
    y = rng.standard_normal(8, np.float32)
    o = np.zeros(8, np.float32)
    k_outer[1,](x, y, o, B=8)
    np.testing.assert_allclose(o, (x[:, None, None] * y[None, :, None] + y).sum((1, 2)), rtol=0.0001, atol=0.0001)


@triton.jit
def odd_b(x, o, M, N, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    mx = tl.full([BM, BN], value=-float("inf"), dtype=tl.float32)
    for off in range(0, N, BN):
        c = off + tl.arange(0, BN)[None, :]
        rm = i < M
        cm = c < N
        mk = rm and cm if False else rm & cm
        a = tl.load(x + i * sm + c * sn, mk, other=-float("inf")).to(tl.float32)
        mx = tl.maximum(a, mx)
    r = tl.max(mx, axis=1)[:, None]
    tl.store(o + i, r, i < M)


def test_rowmax():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((11, 37), np.float32)
    o = np.zeros(11, np.float32)
    odd_b[3,](x, o, 11, 37, 37, 1, BM=4, BN=16)
    np.testing.assert_array_equal(o, x.max(1))


@triton.jit
def k_topk(x, o, oi, N, K: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + p * N + i, mask=i < N, other=-float("inf"))
    for k in range(K):
        m = tl.max(v, axis=0)
        j = tl.argmax(v, axis=0)
        tl.store(o + p * K + k, m)
        tl.store(oi + p * K + k, j)
        v = tl.where(i == j, -float("inf"), v)


def test_topk_loop():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 30), np.float32)
    o = np.zeros((3, 4), np.float32)
    oi = np.zeros((3, 4), np.int64)
    k_topk[3,](x, o, oi, 30, K=4, B=32)
    s = np.argsort(-x, 1)[:, :4]
    np.testing.assert_array_equal(oi, s)


@triton.jit
def odd_g(x, y, o, N, B: tl.constexpr):
    pid = tl.program_id(0)
    row = x + pid * N
    best = float("-inf")
    idx = 0
    for s in range(0, N, B):
        c = s + tl.arange(0, B)
        v = tl.load(row + c, mask=c < N, other=float("-inf"))
        m = tl.max(v, 0)
        j = tl.argmax(v, 0)
        idx = tl.where(m > best, s + j, idx)
        best = tl.maximum(m, best)
    tl.store(o + pid, idx)
    tl.store(y + pid, best)


def test_argmax_loop():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 40), np.float32)
    y = np.zeros(5, np.float32)
    o = np.zeros(5, np.int64)
    odd_g[5,](x, y, o, 40, B=16)
    np.testing.assert_array_equal(o, x.argmax(1))
    np.testing.assert_array_equal(y, x.max(1))


@triton.jit
def k_cat(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(o + tl.arange(0, 2 * B), tl.cat(a, b, can_reorder=True))


def test_cat():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(8, np.float32)
    y = rng.standard_normal(8, np.float32)
    o = np.zeros(16, np.float32)
    k_cat[1,](x, y, o, B=8)
    np.testing.assert_array_equal(o, np.concatenate([x, y]))


@triton.jit
def k_welford(mean, m2, w, mean2, m22, w2):
    d = mean2 - mean
    nw = w + w2
    r = tl.where(nw == 0.0, 0.0, w2 / nw)
    return (mean + d * r, m2 + m22 + d * d * w * r, nw)


@triton.jit
def k_varred(x, o, o2, N, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < N
    v = tl.load(x + i, mask=m, other=0.0)
    mean, m2, w = tl.reduce((v, tl.zeros([B], tl.float32), m.to(tl.float32)), 0, k_welford)
    tl.store(o, mean)
    tl.store(o2, m2 / w)


def test_reduce_fn():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30, np.float32)
    o = np.zeros(1, np.float32)
    o2 = np.zeros(1, np.float32)
    k_varred[1,](x, o, o2, 30, B=32)
    np.testing.assert_allclose([o[0], o2[0]], [x.mean(), x.var()], rtol=0.0001)


@triton.jit
def add_(a, b):
    return a + b


@triton.jit
def k_red(x, o, o2, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o, tl.reduce(v, 0, add_))
    tl.store(o2 + i, tl.associative_scan(v, 0, add_))


def test_reduce_add():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(32, np.float32)
    o = np.zeros(1, np.float32)
    o2 = np.zeros(32, np.float32)
    k_red[1,](x, o, o2, B=32)
    np.testing.assert_allclose(o[0], x.sum(), rtol=0.0001, atol=1e-05)
    np.testing.assert_allclose(o2, np.cumsum(x), rtol=0.0001, atol=1e-05)


@triton.jit
def k_sort(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))


def test_sort():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(32, np.float32)
    o = np.zeros(32, np.float32)
    k_sort[1,](x, o, B=32)
    np.testing.assert_array_equal(o, np.sort(x))


@triton.jit
def k_flip(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.flip(tl.load(x + i), 0))


def test_flip():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(16, np.float32)
    o = np.zeros(16, np.float32)
    k_flip[1,](x, o, B=16)
    np.testing.assert_array_equal(o, x[::-1])


@triton.jit
def k_h(x, o, n, B: tl.constexpr, NB: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + tl.arange(0, NB), tl.histogram(v, NB))


def test_histogram():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, 32).astype(np.int32)
    o = np.zeros(8, np.int32)
    k_h[1,](x, o, 32, B=32, NB=8)
    np.testing.assert_array_equal(o, np.bincount(x, minlength=8))


@triton.jit
def k_gat(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.gather(tl.load(x + i) * 2, tl.load(idx + i), 0))


def test_tl_gather():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(16, np.float32)
    ix = rng.permutation(16).astype(np.int32)
    o = np.zeros(16, np.float32)
    k_gat[1,](x, ix, o, B=16)
    np.testing.assert_array_equal(o, 2 * x[ix])


@triton.jit
def k_lib(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    y = (
        libdevice.tanh(v)
        + tl.extra.cuda.libdevice.erf(v)
        + tl.math.rsqrt(tl.abs(v) + 1)
        + libdevice.pow(tl.abs(v), 2.0)
        + tl.sigmoid(v)
        + libdevice.log1p(tl.abs(v))
    )
    tl.store(o + i, y)


def test_lib():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(16, np.float32)
    o = np.zeros(16, np.float32)
    k_lib[1,](x, o, B=16)
    a = np.abs(x.astype(float))
    np.testing.assert_allclose(
        o,
        np.tanh(x)
        + [math.erf(t) for t in x]
        + 1 / np.sqrt(a + 1)
        + a**2
        + 1 / (1 + np.exp(-x.astype(float)))
        + np.log1p(a),
        rtol=1e-05,
    )


@triton.jit
def k_dotT(a, b, c, N: tl.constexpr):
    r = tl.arange(0, N)
    x = tl.load(a + r[:, None] * N + r[None, :])
    y = tl.load(b + r[:, None] * N + r[None, :])
    acc = tl.dot(tl.trans(x), tl.trans(y * 2)).to(tl.float16)
    acc = tl.dot(x, tl.trans(acc))
    tl.store(c + r[:, None] * N + r[None, :], acc)


def test_dotT():
    rng = np.random.default_rng(0)
    N = 16
    a = rng.standard_normal((N, N)).astype(np.float16)
    b = rng.standard_normal((N, N)).astype(np.float16)
    c = np.zeros((N, N), np.float32)
    k_dotT[1,](a, b, c, N=N)
    y = (a.T.astype(float) @ (b * 2).T.astype(float)).astype(np.float16)
    np.testing.assert_allclose(c, a.astype(float) @ y.T.astype(float), rtol=0.02, atol=0.05)


@triton.jit
def k_int8(a, b, s, c, N: tl.constexpr):
    r = tl.arange(0, N)
    p = r[:, None] * N + r[None, :]
    acc = tl.zeros((N, N), dtype=tl.int32)
    acc += tl.dot(tl.load(a + p), tl.load(b + p))
    tl.store(c + p, (acc.to(tl.float32) * tl.load(s + r)[:, None]).to(tl.float16))


def test_int8dot():
    rng = np.random.default_rng(0)
    N = 32
    a = rng.integers(-9, 9, (N, N)).astype(np.int8)
    b = rng.integers(-9, 9, (N, N)).astype(np.int8)
    s = rng.random(N, dtype=np.float32)
    c = np.zeros((N, N), np.float16)
    k_int8[1,](a, b, s, c, N=N)
    np.testing.assert_allclose(c, a.astype(int) @ b.astype(int) * s[:, None], rtol=0.001, atol=0.01)


@triton.jit
def _dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    random = tl.rand(seed, offsets)
    x_keep = random > p
    output = tl.where(x_keep, x / (1 - p), 0.0)
    tl.store(output_ptr + offsets, output, mask=mask)


def philox_np(seed, off):
    M = (1 << 32) - 1
    c = [
        off.astype(np.uint64),
        np.zeros_like(off, np.uint64),
        np.zeros_like(off, np.uint64),
        np.zeros_like(off, np.uint64),
    ]
    k0, k1 = (seed & M, seed >> 32 & M)
    A, B = (3528531795, 3449720151)
    for _ in range(10):
        c0, c1, c2, c3 = c
        pB = c2 * np.uint64(B)
        pA = c0 * np.uint64(A)
        c = [
            pB >> np.uint64(32) ^ c1 ^ np.uint64(k0),
            pB & np.uint64(M),
            pA >> np.uint64(32) ^ c3 ^ np.uint64(k1),
            pA & np.uint64(M),
        ]
        k0 = k0 + 2654435769 & M
        k1 = k1 + 3144134277 & M
    x = c[0].astype(np.uint32).view(np.int32).astype(np.int64)
    x = np.where(x < 0, -x - 1, x)
    return x.astype(np.float32) * np.float32(4.6566127342e-10)


def test_dropout():
    rng = np.random.default_rng(0)
    n = 300
    x = rng.standard_normal(n, np.float32)
    y = np.zeros_like(x)
    _dropout[3,](x, y, n, 0.5, 123, BLOCK_SIZE=128)
    r = philox_np(123, np.arange(n))
    np.testing.assert_allclose(y, np.where(r > 0.5, x / 0.5, 0), rtol=1e-06)
