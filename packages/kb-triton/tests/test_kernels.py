"""Kernels as published code has them: norms, attention, losses, products, under locks and by atomics."""

import ml_dtypes
import numpy as np

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def row_softmax(x, y, columns, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), 13, tl.num_programs(0), num_stages=2):
        at = tl.arange(0, BLOCK)
        inside = at < columns
        part = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
        powers = tl.exp(part - tl.max(part, axis=0))
        tl.store(y + row * columns + at, powers / tl.sum(powers, axis=0), mask=inside)


def test_softmax_of_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((13, 77), np.float32)
    y = np.zeros_like(x)
    row_softmax[8,](x, y, 77, BLOCK=128)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-05, atol=1e-07)


@triton.jit
def slope(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def product(
    a,
    b,
    c,
    m,
    n,
    k,
    bk,
    bn,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
    ACT: tl.constexpr,
):
    number = tl.program_id(0)
    down, along = (tl.cdiv(m, ROWS), tl.cdiv(n, COLS))
    group = number // (GROUP * along)
    rows = min(down - group * GROUP, GROUP)
    row = group * GROUP + number % (GROUP * along) % rows
    col = number % (GROUP * along) // rows
    at_row = (row * ROWS + tl.arange(0, ROWS)) % m
    at_col = (col * COLS + tl.arange(0, COLS)) % n
    depth = tl.arange(0, DEPTH)
    left = a + at_row[:, None] * k + depth[None, :]
    right = b + depth[:, None] * bk + at_col[None, :] * bn
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for step in range(tl.cdiv(k, DEPTH)):
        rest = k - step * DEPTH
        total += tl.dot(
            tl.load(left, mask=depth[None, :] < rest, other=0.0), tl.load(right, mask=depth[:, None] < rest, other=0.0)
        )
        left += DEPTH
        right += DEPTH * bk
    if ACT == "slope":
        total = slope(total)
    to_row, to_col = (row * ROWS + tl.arange(0, ROWS), col * COLS + tl.arange(0, COLS))
    inside = (to_row < m)[:, None] & (to_col < n)[None, :]
    tl.store(c + n * to_row[:, None] + to_col[None, :], total.to(tl.float16), mask=inside)


def test_product_with_wrapping_addresses():
    rng = np.random.default_rng(0)
    m, n, k = (70, 50, 40)
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    expected = a.astype(np.float64) @ b
    for right, strides in ((b, (n, 1)), (np.ascontiguousarray(b.T), (1, k))):
        c = np.zeros((m, n), np.float16)
        product[lambda given: (-(-m // given["ROWS"]) * -(-n // given["COLS"]),)](
            a, right, c, m, n, k, *strides, ROWS=32, COLS=32, DEPTH=16, GROUP=2, ACT="slope"
        )
        np.testing.assert_allclose(c, np.where(expected < 0, 0.01 * expected, expected), rtol=0.002, atol=0.002)


@triton.jit
def weight_grads(dy, x, dw, lock, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = (tl.program_id(0), tl.arange(0, BLOCK))
    part = row % PARTS
    lock += part
    seen = lock + PARTS
    here = dw + part * n + at
    value = tl.load(dy + row * n + at, mask=at < n, other=0) * tl.load(x + row * n + at, mask=at < n, other=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(seen) == 0:
        tl.atomic_xchg(seen, 1)
    else:
        value += tl.load(here, mask=at < n)
    tl.store(here, value, mask=at < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def test_sums_under_locks():
    rng = np.random.default_rng(0)
    dy, x = rng.standard_normal((2, 10, 30), np.float32)
    dw, lock = (np.zeros((3, 30), np.float32), np.zeros(6, np.int32))
    weight_grads[10,](dy, x, dw, lock, 30, PARTS=3, BLOCK=32)
    np.testing.assert_allclose(dw.sum(0), (dy * x).sum(0), rtol=0.0001, atol=1e-05)
    assert lock.tolist() == [0, 0, 0, 1, 1, 1]


@triton.jit
def flash(q, k, v, out, lse, n, scale, D: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, CAUSAL: tl.constexpr):
    first = tl.program_id(0) * ROWS
    queries = tl.make_block_ptr(q, (n, D), (D, 1), (first, 0), (ROWS, D), (1, 0))
    keys = tl.make_block_ptr(k, (D, n), (1, D), (0, 0), (D, COLS), (0, 1))
    values = tl.make_block_ptr(v, (n, D), (D, 1), (0, 0), (COLS, D), (1, 0))
    row = first + tl.arange(0, ROWS)
    most = tl.zeros([ROWS], dtype=tl.float32) - float("inf")
    total = tl.zeros([ROWS], dtype=tl.float32)
    acc = tl.zeros([ROWS, D], dtype=tl.float32)
    query = tl.load(queries, boundary_check=(0,), padding_option="zero")
    end = tl.minimum(first + ROWS, n) if CAUSAL else n
    for start in range(0, end, COLS):
        col = start + tl.arange(0, COLS)
        score = tl.dot(query, tl.load(keys, boundary_check=(1,))) * scale
        score = tl.where(col[None, :] < n, score, float("-inf"))
        if CAUSAL:
            score = tl.where(row[:, None] >= col[None, :], score, float("-inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        power = tl.exp(score - higher[:, None])
        shrink = tl.exp(most - higher)
        total = total * shrink + tl.sum(power, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(power.to(tl.float16), tl.load(values, boundary_check=(0,)), acc)
        most = higher
        keys = tl.advance(keys, (0, COLS))
        values = tl.advance(values, (COLS, 0))
    tl.store(lse + row, most + tl.log(total), mask=row < n)
    tl.store(
        tl.make_block_ptr(out, (n, D), (D, 1), (first, 0), (ROWS, D), (1, 0)),
        (acc / total[:, None]).to(tl.float16),
        boundary_check=(0,),
    )


def test_attention():
    rng = np.random.default_rng(0)
    n, d = (60, 16)
    q, k, v = rng.standard_normal((3, n, d)).astype(np.float16)
    for causal in (True, False):
        out, lse = (np.zeros((n, d), np.float16), np.zeros(n, np.float32))
        flash[2,](q, k, v, out, lse, n, 0.25, D=d, ROWS=32, COLS=16, CAUSAL=causal)
        score = q.astype(np.float64) @ k.T * 0.25
        if causal:
            score = np.where(np.tril(np.ones((n, n), bool)), score, -np.inf)
        expected = np.log(np.exp(score).sum(1))
        np.testing.assert_allclose(lse, expected, rtol=0.001, atol=0.001)
        np.testing.assert_allclose(out, np.exp(score - expected[:, None]) @ v, rtol=0.02, atol=0.002)


@triton.jit
def odd_f(q, k, v, do, dq, dk, dv, lse, delta, S, sc, B: tl.constexpr, D: tl.constexpr):
    i = tl.arange(0, B)
    d = tl.arange(0, D)
    p = i[:, None] * D + d[None, :]
    Q = tl.load(q + p)
    K = tl.load(k + p)
    V = tl.load(v + p)
    dO = tl.load(do + p)
    L = tl.load(lse + i)
    De = tl.load(delta + i)
    qkT = tl.dot(K, tl.trans(Q))
    pT = tl.math.exp2(qkT * sc - L[None, :])
    pT = tl.where(i[None, :] >= i[:, None], pT, 0.0)
    dV = tl.dot(pT.to(tl.float16), dO)
    dpT = tl.dot(V, tl.trans(dO)).to(tl.float32)
    dsT = (pT * (dpT - De[None, :])).to(tl.float16)
    dK = tl.dot(dsT, Q)
    dQ = tl.dot(tl.trans(dsT), K)
    tl.store(dv + p, dV)
    tl.store(dk + p, dK)
    tl.store(dq + p, dQ)


def test_the_backward_pass_of_attention():
    rng = np.random.default_rng(0)
    B, D = (32, 16)
    q, k, v, do = (rng.standard_normal((B, D)).astype(np.float16) for _ in range(4))
    dq, dk, dv = (np.zeros((B, D), np.float32) for _ in range(3))
    s = q.astype(float) @ k.T.astype(float)
    m = np.tril(np.ones((B, B), bool))
    P = np.where(m, np.exp(s), 0)
    total = P.sum(1)
    P /= total[:, None]
    out = P @ v
    lse = (np.log(total) * 1.44269504).astype(np.float32)
    de = (out * do).sum(1).astype(np.float32)
    odd_f[1,](q, k, v, do, dq, dk, dv, lse, de, B, 1.44269504, B=B, D=D)
    dP = do.astype(float) @ v.T
    dS = P * (dP - de[:, None])
    np.testing.assert_allclose(dv, P.T @ do, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(dk, dS.T @ q, rtol=0.03, atol=0.04)
    np.testing.assert_allclose(dq, dS @ k, rtol=0.03, atol=0.04)


@triton.jit
def xent(logits, labels, loss, dlog, V, ignore_index, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    label = tl.load(labels + row)
    if label == ignore_index:
        tl.store(loss + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    ori = tl.load(logits + label)
    for i in range(0, V, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        x = tl.load(logits + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
        bm = tl.max(x)
        m_new = tl.maximum(m, bm)
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    lse = m + tl.log(d)
    for i in range(0, V, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        x = tl.load(logits + offs, mask=offs < V, other=float("-inf")).to(tl.float32)
        g = tl.exp(x - m) / d
        g = tl.where(offs != label, g, g - 1.0)
        tl.store(dlog + row * stride + offs, g, mask=offs < V)
    tl.debug_barrier()
    tl.store(loss + row, lse - ori)


def test_cross_entropy():
    rng = np.random.default_rng(0)
    R, V = (6, 100)
    x = rng.standard_normal((R, V), np.float32)
    lab = rng.integers(0, V, R)
    lab[2] = -100
    loss = np.zeros(R, np.float32)
    d = np.zeros_like(x)
    xent[R,](x, lab, loss, d, V, -100, V, BLOCK=64)
    lse = np.log(np.exp(x.astype(np.float64)).sum(1))
    ref = lse - x[np.arange(R), lab]
    ref[2] = 0
    np.testing.assert_allclose(loss, ref, rtol=1e-05, atol=1e-05)
    p = np.exp(x - lse[:, None])
    p[np.arange(R), lab] -= 1
    p[2] = 0
    np.testing.assert_allclose(d, p, rtol=0.0001, atol=1e-05)


@triton.jit
def odd_k(x, sc, o, N, B: tl.constexpr, FP8: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < N, other=0.0).to(tl.float32)
    s = tl.maximum(tl.max(tl.abs(v)), 1e-10) / 448.0
    q = tl.clamp(v / s, -448.0, 448.0).to(FP8)
    tl.store(sc + tl.program_id(0), s)
    tl.store(o + i, q, mask=i < N)


def test_quantization_to_fp8():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40, np.float32)
    sc = np.zeros(3, np.float32)
    o = np.zeros(40, ml_dtypes.float8_e4m3fn)
    odd_k[3,](x, sc, o, 40, B=16, FP8=tl.float8e4nv)
    np.testing.assert_allclose(o.astype(np.float32) * np.repeat(sc, 16)[:40], x, rtol=0.07, atol=0.01)
