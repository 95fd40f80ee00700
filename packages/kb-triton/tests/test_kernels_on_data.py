"""Kernels that go where loaded integers say, and kernels of many small steps."""

from itertools import pairwise

import numpy as np

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def rope_kernel(q, cos, sin, S, D: tl.constexpr, HALF: tl.constexpr):
    p = tl.program_id(0)
    h = tl.arange(0, HALF)
    c = tl.load(cos + p * HALF + h)
    s = tl.load(sin + p * HALF + h)
    a = tl.load(q + p * D + h).to(c.dtype)
    b = tl.load(q + p * D + HALF + h).to(c.dtype)
    tl.store(q + p * D + h, a * c - b * s)
    tl.store(q + p * D + HALF + h, b * c + a * s)


@triton.jit
def interleaved_rope_kernel(q, out, cos, sin, D: tl.constexpr, HALF: tl.constexpr):
    p = tl.program_id(0)
    o = tl.arange(0, D)
    x = tl.load(q + p * D + o)
    x = tl.reshape(x, (HALF, 2))
    a, b = tl.split(x)
    h = tl.arange(0, HALF)
    c = tl.load(cos + p * HALF + h)
    s = tl.load(sin + p * HALF + h)
    tl.store(out + p * D + o, tl.interleave(a * c - b * s, a * s + b * c))


def test_rotary_embeddings():
    rng = np.random.default_rng(0)
    S, D = (5, 16)
    q = rng.standard_normal((S, D), np.float32)
    t = rng.standard_normal((S, D // 2))
    c = np.cos(t).astype(np.float32)
    s = np.sin(t).astype(np.float32)
    q2 = q.copy()
    rope_kernel[S,](q2, c, s, S, D=D, HALF=D // 2)
    a, b = (q[:, :8], q[:, 8:])
    np.testing.assert_allclose(q2, np.concatenate([a * c - b * s, b * c + a * s], 1), rtol=1e-05, atol=1e-06)
    o = np.zeros_like(q)
    interleaved_rope_kernel[S,](q, o, c, s, D=D, HALF=8)
    a, b = (q[:, ::2], q[:, 1::2])
    r = np.stack([a * c - b * s, a * s + b * c], -1).reshape(S, D)
    np.testing.assert_allclose(o, r, rtol=1e-05, atol=1e-06)


@triton.jit
def convolution_kernel(x, w, b, o, C, H, W, KH: tl.constexpr, KW: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0) * B + tl.arange(0, B)
    oh = p // W
    ow = p % W
    acc = tl.zeros((B,), tl.float32)
    for kh in range(KH):
        for kw in range(KW):
            ih = oh + kh - KH // 2
            iw = ow + kw - KW // 2
            ok = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W) & (p < H * W)
            acc += tl.load(x + ih * W + iw, mask=ok, other=0.0) * tl.load(w + kh * KW + kw)
    if b is not None:
        acc += tl.load(b)
    tl.store(o + p, acc, mask=p < H * W)


def test_convolution():
    rng = np.random.default_rng(0)
    H, W = (7, 9)
    x = rng.standard_normal((H, W), np.float32)
    w = rng.standard_normal((3, 3), np.float32)
    o = np.zeros((H, W), np.float32)
    convolution_kernel[4,](x, w, None, o, 1, H, W, KH=3, KW=3, B=16)
    xp = np.pad(x, 1)
    r = sum(xp[i : i + H, j : j + W] * w[i, j] for i in range(3) for j in range(3))
    np.testing.assert_allclose(o, r, rtol=0.0001, atol=1e-05)


@triton.jit
def experts_kernel(tok, eid, w, out, n, H, EM, BT: tl.constexpr, BH: tl.constexpr, BO: tl.constexpr):
    p = tl.program_id(0)
    e = tl.load(eid + p)
    if e == -1:
        return
    t = tl.load(tok + p * BT + tl.arange(0, BT))
    m = t < n
    a = tl.load(out + 0)
    h = tl.arange(0, BH)
    x = tl.load(w + e * H * H + h[:, None] * H + h[None, :])
    tl.store(
        out + t[:, None] * H + h[None, :], tl.sum(x, 0)[None, :] + tl.zeros((BT, BH), tl.float32) + a, mask=m[:, None]
    )


def test_rows_of_chosen_experts():
    rng = np.random.default_rng(0)
    H = 8
    w = rng.standard_normal((3, H, H), np.float32)
    tok = np.array([2, 0, 9, 9, 1, 3, 9, 9], np.int32)
    e = np.array([2, -1], np.int32)
    e = np.array([2, 0], np.int32)
    out = np.zeros((4, H), np.float32)
    experts_kernel[2,](tok, e, w, out, 4, H, 0, BT=4, BH=8, BO=8)
    r = np.zeros((4, H))
    r[[2, 0]] = w[2].sum(0)
    r[[1, 3]] = w[0].sum(0)
    np.testing.assert_allclose(out, r, rtol=1e-05, atol=1e-05)


@triton.jit
def ragged_kernel(x, o, P, S, B: tl.constexpr):
    i = tl.program_id(0)
    s = tl.load(P + i)
    e = tl.load(P + i + 1)
    L = e - s
    if L <= 0:
        return
    acc = tl.zeros([B], dtype=tl.float32)
    for j in range(0, L, B):
        o_ = j + tl.arange(0, B)
        acc += tl.load(x + s + o_, mask=o_ < L, other=0)
    tl.store(o + i, tl.sum(acc))


def test_rows_of_different_lengths():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50, np.float32)
    P = np.array([0, 10, 10, 33, 50], np.int32)
    o = np.zeros(4, np.float32)
    ragged_kernel[4,](x, o, P, 0, B=8)
    np.testing.assert_allclose(o, [x[a:b].sum() for a, b in pairwise(P)], rtol=0.0001, atol=1e-05)


@triton.jit
def inverse_kernel(p, o, s0, s1, N: tl.constexpr):
    r = tl.arange(0, N)
    A = tl.zeros((N, N), dtype=tl.float32)
    A += tl.where(r[:, None] > r[None, :], tl.load(p + r[:, None] * s0 + r[None, :] * s1), 0)
    b = -A
    for i in range(1, N):
        row = tl.sum(tl.where(r[:, None] == i, b, 0), 0)
        row = row + tl.sum(row[:, None] * b, 0) * (r < i)
        b = tl.where((r == i)[:, None], row, b)
    b += r[:, None] == r[None, :]
    tl.store(o + r[:, None] * s0 + r[None, :] * s1, b)


def test_the_inverse_of_a_lower_triangle():
    rng = np.random.default_rng(0)
    N = 16
    p = rng.standard_normal((N, N), np.float32) * np.float32(0.2)
    o = np.zeros((N, N), np.float32)
    inverse_kernel[1,](p, o, N, 1, N=N)
    L = np.eye(N) + np.tril(p, -1)
    np.testing.assert_allclose(o, np.linalg.inv(L), rtol=0.001, atol=0.0001)


@triton.jit
def compact_kernel(x, cnt, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m, other=0.0)
    keep = (v > 0) & m
    pos = tl.cumsum(keep.to(tl.int32), 0) - 1
    base = tl.atomic_add(cnt, tl.sum(keep.to(tl.int32), 0))
    tl.store(o + base + pos, v, mask=keep)


def test_positive_elements_are_moved_together():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50, np.float32)
    c = np.zeros(1, np.int32)
    o = np.zeros(50, np.float32)
    compact_kernel[4,](x, c, o, 50, B=16)
    assert c[0] == (x > 0).sum()
    np.testing.assert_array_equal(np.sort(o[: c[0]]), np.sort(x[x > 0]))
