"""Reductions, scans, products, and orders of blocks."""

import math

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.language import libdevice


@triton.jit
def scan_kernel(x, o, o2, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(o + i, tl.cumsum(v, 0), mask=i < n)
    f = (v > 0).to(tl.int32)
    tl.store(o2 + i, tl.cumsum(f, axis=0) - f, mask=i < n)


def test_scans_of_floats_and_of_flags():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40, np.float32)
    o = np.zeros(40, np.float32)
    o2 = np.zeros(40, np.int32)
    scan_kernel[1,](x, o, o2, 40, B=64)
    np.testing.assert_allclose(o, np.cumsum(x), rtol=0.0001, atol=1e-05)
    fl = (x > 0).astype(int)
    np.testing.assert_array_equal(o2, np.cumsum(fl) - fl)


@triton.jit
def middle_sum_kernel(x, o, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    v = tl.load(x + a * B * C + b * C + c)
    s = tl.sum(v, 1)
    tl.store(o + tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :], s)


@triton.jit
def outer_sum_kernel(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    p = a[:, None, None] * b[None, :, None] + b[None, None, :]
    tl.store(o + i[:, None], tl.sum(tl.sum(p, 2), 1)[:, None])


@triton.jit
def row_maximum_kernel(x, o, M, N, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
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


@triton.jit
def largest_kernel(x, o, oi, N, K: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + p * N + i, mask=i < N, other=-float("inf"))
    for k in range(K):
        m = tl.max(v, axis=0)
        j = tl.argmax(v, axis=0)
        tl.store(o + p * K + k, m)
        tl.store(oi + p * K + k, j)
        v = tl.where(i == j, -float("inf"), v)


def test_the_largest_elements_of_rows_by_a_loop():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 30), np.float32)
    o = np.zeros((3, 4), np.float32)
    oi = np.zeros((3, 4), np.int64)
    largest_kernel[3,](x, o, oi, 30, K=4, B=32)
    s = np.argsort(-x, 1)[:, :4]
    np.testing.assert_array_equal(oi, s)


@triton.jit
def running_argmax_kernel(x, y, o, N, B: tl.constexpr):
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


def test_an_argmax_over_blocks_of_a_row():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 40), np.float32)
    y = np.zeros(5, np.float32)
    o = np.zeros(5, np.int64)
    running_argmax_kernel[5,](x, y, o, 40, B=16)
    np.testing.assert_array_equal(o, x.argmax(1))
    np.testing.assert_array_equal(y, x.max(1))


@triton.jit
def cat_kernel(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(o + tl.arange(0, 2 * B), tl.cat(a, b, can_reorder=True))


@triton.jit
def welford(mean, m2, w, mean2, m22, w2):
    d = mean2 - mean
    nw = w + w2
    r = tl.where(nw == 0.0, 0.0, w2 / nw)
    return (mean + d * r, m2 + m22 + d * d * w * r, nw)


@triton.jit
def variance_kernel(x, o, o2, N, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < N
    v = tl.load(x + i, mask=m, other=0.0)
    mean, m2, w = tl.reduce((v, tl.zeros([B], tl.float32), m.to(tl.float32)), 0, welford)
    tl.store(o, mean)
    tl.store(o2, m2 / w)


def test_a_reduction_with_a_function_of_three_values():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30, np.float32)
    o = np.zeros(1, np.float32)
    o2 = np.zeros(1, np.float32)
    variance_kernel[1,](x, o, o2, 30, B=32)
    np.testing.assert_allclose([o[0], o2[0]], [x.mean(), x.var()], rtol=0.0001)


@triton.jit
def added(a, b):
    return a + b


@triton.jit
def added_kernel(x, o, o2, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o, tl.reduce(v, 0, added))
    tl.store(o2 + i, tl.associative_scan(v, 0, added))


def test_reductions_and_scans_with_a_sum():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(32, np.float32)
    o = np.zeros(1, np.float32)
    o2 = np.zeros(32, np.float32)
    added_kernel[1,](x, o, o2, B=32)
    np.testing.assert_allclose(o[0], x.sum(), rtol=0.0001, atol=1e-05)
    np.testing.assert_allclose(o2, np.cumsum(x), rtol=0.0001, atol=1e-05)


@triton.jit
def sort_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))


@triton.jit
def flip_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.flip(tl.load(x + i), 0))


@triton.jit
def histogram_kernel(x, o, n, B: tl.constexpr, NB: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + tl.arange(0, NB), tl.histogram(v, NB))


@triton.jit
def gather_kernel(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.gather(tl.load(x + i) * 2, tl.load(idx + i), 0))


@triton.jit
def libdevice_kernel(x, o, B: tl.constexpr):
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


@triton.jit
def transposed_dot_kernel(a, b, c, N: tl.constexpr):
    r = tl.arange(0, N)
    x = tl.load(a + r[:, None] * N + r[None, :])
    y = tl.load(b + r[:, None] * N + r[None, :])
    acc = tl.dot(tl.trans(x), tl.trans(y * 2)).to(tl.float16)
    acc = tl.dot(x, tl.trans(acc))
    tl.store(c + r[:, None] * N + r[None, :], acc)


@triton.jit
def bytes_dot_kernel(a, b, s, c, N: tl.constexpr):
    r = tl.arange(0, N)
    p = r[:, None] * N + r[None, :]
    acc = tl.zeros((N, N), dtype=tl.int32)
    acc += tl.dot(tl.load(a + p), tl.load(b + p))
    tl.store(c + p, (acc.to(tl.float32) * tl.load(s + r)[:, None]).to(tl.float16))


@triton.jit
def dropout_kernel(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
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


def drawn(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)


def functions(x):
    """The sum of `libdevice_kernel`, in f64."""
    x = x.astype(np.float64)
    a = np.abs(x)
    erfs = np.vectorize(math.erf)(x)
    return np.tanh(x) + erfs + 1 / np.sqrt(a + 1) + a**2 + 1 / (1 + np.exp(-x)) + np.log1p(a)


X, Y, LONG, CUBE, ROWS = drawn(16), drawn(2, 16)[1], drawn(300), drawn(4, 8, 16), drawn(11, 37)
NUMBERS = np.random.default_rng(0)
FEW, ORDER = NUMBERS.integers(0, 8, 32).astype(np.int32), NUMBERS.permutation(16).astype(np.int32)
A, B = drawn(2, 16, 16, dtype=np.float16)
TURNED = (A.T.astype(float) @ (B * 2).T.astype(float)).astype(np.float16).T
C, D, SCALES = *NUMBERS.integers(-9, 9, (2, 32, 32)).astype(np.int8), NUMBERS.random(32, dtype=np.float32)
OUTER = (X[:8, None, None] * Y[None, :8, None] + Y[:8]).sum((1, 2))
KEPT = np.where(philox_np(123, np.arange(300)) > 0.5, LONG / 0.5, 0).astype(np.float32)
CASES = {
    "a sum over the middle axis": (
        middle_sum_kernel, (1,), (CUBE,), (), {"A": 4, "B": 8, "C": 16}, CUBE.sum(1), 1e-5, 1e-5,
    ),
    "sums of a block of three axes": (outer_sum_kernel, (1,), (X[:8], Y[:8]), (), {"B": 8}, OUTER, 1e-4, 1e-4),
    "maxima of rows over blocks": (
        row_maximum_kernel, (3,), (ROWS,), (11, 37, 37, 1), {"BM": 4, "BN": 16}, ROWS.max(1),
    ),
    "cat": (cat_kernel, (1,), (X[:8], Y[:8]), (), {"B": 8}, np.concatenate([X[:8], Y[:8]])),
    "sort": (sort_kernel, (1,), (LONG[:32],), (), {"B": 32}, np.sort(LONG[:32])),
    "flip": (flip_kernel, (1,), (X,), (), {"B": 16}, X[::-1]),
    "histogram": (
        histogram_kernel, (1,), (FEW,), (32,), {"B": 32, "NB": 8}, np.bincount(FEW, minlength=8).astype(np.int32),
    ),
    "gather": (gather_kernel, (1,), (X, ORDER), (), {"B": 16}, 2 * X[ORDER]),
    "functions of libdevice": (libdevice_kernel, (1,), (X,), (), {"B": 16}, functions(X).astype(np.float32), 1e-5),
    "products of transposed blocks": (
        transposed_dot_kernel, (1,), (A, B), (), {"N": 16}, (A.astype(float) @ TURNED).astype(np.float32), 0.02, 0.05,
    ),
    "a product of bytes": (
        bytes_dot_kernel, (1,), (C, D, SCALES), (), {"N": 32},
        ((C.astype(int) @ D.astype(int)) * SCALES[:, None]).astype(np.float16), 1e-3, 0.01,
    ),
    "dropout by random numbers": (
        dropout_kernel, (3,), (LONG,), (300, 0.5, 123), {"BLOCK_SIZE": 128}, KEPT, 1e-6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_blocks(case, check):
    check(*case)
