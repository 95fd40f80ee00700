"""Loads and stores: masks of every shape, gathers, other elements, bounds, descriptors."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def causal_kernel(q, o, S, B: tl.constexpr):
    r = tl.arange(0, B)
    c = tl.arange(0, B)
    x = tl.load(q + r[:, None] * B + c[None, :])
    x = tl.where(r[:, None] >= c[None, :], x, float("-inf"))
    x = x + tl.where(r[:, None] - c[None, :] < 4, 0.0, -1.0)
    tl.store(o + r[:, None] * B + c[None, :], tl.exp(x))


@triton.jit
def gather_kernel(src, idx, dst, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    j = tl.load(idx + i, mask=m, other=0)
    v = tl.load(src + j, mask=m & (j >= 0), other=-1.0)
    tl.store(dst + i, v, mask=m)


@triton.jit
def known_mask_kernel(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    m = (i % 3 == 0) & (i < n)
    v = tl.load(x + i, mask=m, other=0.0)
    w = tl.where(m, v, 7.0) + m.to(tl.float32) + i
    tl.store(o + i, w, mask=i & 1 == 0)


@triton.jit
def pending_mask_kernel(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, v, mask=v > 0)


@triton.jit
def pending_other_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    z = tl.load(y + i) * 3
    tl.store(o + i, tl.load(x + i, mask=i < n, other=z))


@triton.jit
def descriptor_kernel(a, b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    e = tl.make_tensor_descriptor(b, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    x = d.load([tl.program_id(0) * BM, tl.program_id(1) * BN])
    e.store([tl.program_id(0) * BM, tl.program_id(1) * BN], x * 2)


@triton.jit
def transposed_kernel(a, b, N: tl.constexpr, M: tl.constexpr):
    r = tl.arange(0, N)
    c = tl.arange(0, M)
    x = tl.load(a + r[:, None] * M + c[None, :])
    y = tl.trans(x) * 2
    tl.store(b + c[:, None] * N + r[None, :], y)


@triton.jit
def column_major_kernel(a, b, N: tl.constexpr, M: tl.constexpr):
    r = tl.arange(0, N)
    c = tl.arange(0, M)
    x = tl.load(a + c[:, None] + r[None, :] * M)
    tl.store(b + c[:, None] * N + r[None, :], x + 1)


@triton.jit
def atomic_sum_kernel(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(o, tl.sum(v, axis=0))


def drawn(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)


AT, X, Y, SQUARE, WIDE = np.arange(16), drawn(2, 16)[0], drawn(2, 16)[1], drawn(16, 16), drawn(8, 16)
DOWN, ALONG = AT[:, None], AT[None, :]
TABLE, INDEX = drawn(50), np.random.default_rng(1).integers(-3, 50, 30)
CHOSEN = (AT % 3 == 0) & (AT < 13)
FAR = np.exp(np.where(DOWN >= ALONG, SQUARE, -np.inf) + np.where(DOWN - ALONG < 4, 0, -1)).astype(np.float32)
MIXED = np.where(AT & 1, 0, np.where(CHOSEN, X, 7) + CHOSEN + AT).astype(np.float32)
CASES = {
    "a causal mask": (causal_kernel, (1,), (SQUARE,), (16,), {"B": 16}, FAR, 1e-5),
    "a gather, with other for negative indices": (
        gather_kernel, (2,), (TABLE, INDEX), (30,), {"B": 16}, np.where(INDEX >= 0, TABLE[INDEX], np.float32(-1)),
    ),
    "known masks as data": (known_mask_kernel, (1,), (X,), (13,), {"B": 16}, MIXED, 1e-6),
    "a pending mask of a store": (pending_mask_kernel, (1,), (X,), (13,), {"B": 16}, np.where(X > 0, X, 0)),
    "a pending other of a load": (
        pending_other_kernel, (1,), (X, Y), (9,), {"B": 16}, np.where(AT < 9, X, Y * 3), 1e-6,
    ),
    "descriptors beyond the bounds": (
        descriptor_kernel, (2, 2), (drawn(20, 24),), (20, 24), {"BM": 16, "BN": 16}, drawn(20, 24) * 2,
    ),
    "a transposed block": (transposed_kernel, (1,), (WIDE,), (), {"N": 8, "M": 16}, WIDE.T * 2),
    "a load down the columns": (column_major_kernel, (1,), (WIDE,), (), {"N": 8, "M": 16}, WIDE.T + 1),
    "a sum by atomics": (
        atomic_sum_kernel, (4,), (TABLE,), (50,), {"B": 16}, TABLE.sum(keepdims=True), 1e-5, 1e-5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_loads_and_stores(case, check):
    check(*case)
