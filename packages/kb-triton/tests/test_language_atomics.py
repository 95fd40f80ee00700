"""Atomics on elements anywhere and under masks, and stacks of products."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def split_depth(a, b, c, m, n, k, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, PARTS: tl.constexpr):
    along = tl.cdiv(n, COLS)
    row = tl.program_id(0) // along * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(0) % along * COLS + tl.arange(0, COLS)
    depth = tl.program_id(1) * DEPTH + tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for step in range(tl.cdiv(k, DEPTH * PARTS)):
        at = step * DEPTH * PARTS + depth
        left = tl.load(a + (row % m)[:, None] * k + at[None, :], mask=at[None, :] < k, other=0.0)
        right = tl.load(b + at[:, None] * n + (col % n)[None, :], mask=at[:, None] < k, other=0.0)
        total += tl.dot(left, right)
    inside = (row < m)[:, None] & (col < n)[None, :]
    tl.atomic_add(c + row[:, None] * n + col[None, :], total, mask=inside)


def test_parts_of_a_product_are_added_by_atomics():
    rng = np.random.default_rng(0)
    m, n, k = 40, 48, 100
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    split_depth[6, 2](a, b, c, m, n, k, ROWS=16, COLS=32, DEPTH=16, PARTS=2)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=2e-3, atol=2e-3)


@triton.jit
def scatter_rows(grad, ids, table, n, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    number = tl.load(ids + row, mask=row < n, other=0)
    inside = (row < n)[:, None] & (col < width)[None, :]
    value = tl.load(grad + row[:, None] * width + col[None, :], mask=inside, other=0.0)
    tl.atomic_add(table + number[:, None] * width + col[None, :], value, mask=inside)


def test_gradients_are_added_to_the_rows_that_ids_name():
    rng = np.random.default_rng(0)
    ids, grad = rng.integers(0, 6, 17), rng.standard_normal((17, 20), np.float32)
    table, expected = np.zeros((6, 20), np.float32), np.zeros((6, 20))
    scatter_rows[3,](grad, ids, table, 17, 20, ROWS=8, COLS=32)
    np.add.at(expected, ids, grad.astype(np.float64))
    np.testing.assert_allclose(table, expected, rtol=1e-5, atol=1e-6)


@triton.jit
def count(x, counts, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(counts + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


def test_a_histogram_by_atomics():
    x, counts = np.random.default_rng(0).integers(0, 10, 50).astype(np.int32), np.zeros(10, np.int32)
    count[4,](x, counts, 50, B=16)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=10))


@triton.jit
def products(a, b, c, N: tl.constexpr):
    entry = tl.arange(0, 2)[:, None, None]
    at = entry * N * N + tl.arange(0, N)[None, :, None] * N + tl.arange(0, N)[None, None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


def test_a_stack_of_products():
    a, b = np.random.default_rng(0).standard_normal((2, 2, 16, 16)).astype(np.float16)
    c = np.zeros((2, 16, 16), np.float32)
    products[1,](a, b, c, N=16)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)


@triton.jit
def exchange_equal(x, expected, old, NEW: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    new = tl.full((B,), NEW, x.dtype.element_ty)
    tl.store(old + at, tl.atomic_cas(x + at, tl.load(expected + at), new))


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_atomic_cas_of_floats_compares_bits(kind):
    x = np.array([0.0, -0.0, np.nan, 1.0, np.nan, 0.0, -np.inf, 2.0], kind)
    expected = np.array([-0.0, -0.0, np.nan, 1.0, 5.0, 0.0, -np.inf, np.nan], kind)
    before, old = x.copy(), np.ones(8, kind)
    exchange_equal[1,](x, expected, old, NEW=3.0, B=8)
    assert old.tobytes() == before.tobytes()
    assert x.tobytes() == np.array([0.0, 3.0, 3.0, 3.0, np.nan, 3.0, 3.0, 2.0], kind).tobytes()


@triton.jit
def exchange_constants(x, old):
    tl.store(old, tl.atomic_cas(x, -0.0, 3.0))
    tl.store(old + 1, tl.atomic_cas(x + 1, float("nan"), 4.0))
    tl.store(old + 2, tl.atomic_cas(x + 2, 1.0, float("nan")))
    tl.store(old + 3, tl.atomic_xchg(x + 3, -0.0))


def test_atomic_cas_compares_the_bits_of_constants():
    x, old = np.array([0.0, np.nan, 1.0, 2.0], np.float32), np.zeros(4, np.float32)
    exchange_constants[1,](x, old)
    assert old.tobytes() == np.array([0.0, np.nan, 1.0, 2.0], np.float32).tobytes()
    assert x.tobytes() == np.array([0.0, 4.0, np.nan, -0.0], np.float32).tobytes()
