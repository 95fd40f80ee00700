"""Attention of heads, forward and backward, causal and not: softmax(Q Kᵀ scale) V, a block of queries a program.

The backward pass makes the probabilities P anew, from the logarithms of the sums of their rows. With dP = dO Vᵀ and
delta the sums of dO * O along rows: dS = P * (dP - delta), dV = Pᵀ dO, dK = dSᵀ Q scale, dQ = dS K scale.
"""

import numpy as np
import triton
import triton.language as tl
from numbers_of import asked_types, assert_near, exact, normal


@triton.jit
def rows_of(x_ptr, start, n, ROWS: tl.constexpr, D: tl.constexpr):
    """The rows from *start* on of an n x D matrix, with zeros beyond its end."""
    at = start + tl.arange(0, ROWS)[:, None]
    return tl.load(x_ptr + at * D + tl.arange(0, D)[None, :], mask=at < n, other=0.0)


@triton.jit
def put_rows(x_ptr, start, n, rows, ROWS: tl.constexpr, D: tl.constexpr):
    at = start + tl.arange(0, ROWS)[:, None]
    tl.store(x_ptr + at * D + tl.arange(0, D)[None, :], rows.to(x_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def is_seen(first_row, first_column, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CAUSAL: tl.constexpr):
    """The mask of queries (rows) that attend to keys (columns)."""
    row = first_row + tl.arange(0, ROWS)[:, None]
    column = first_column + tl.arange(0, COLUMNS)[None, :]
    seen = (row < n) & (column < n)
    if CAUSAL:
        seen = seen & (column <= row)
    return seen


@triton.jit
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    level_ptr,
    n,
    scale,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(0) * ROWS
    head = tl.program_id(1) * n * D
    q = rows_of(q_ptr + head, first, n, ROWS, D)
    largest = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, D], tl.float32)
    end = tl.minimum(n, first + ROWS) if CAUSAL else n
    for start in range(0, end, COLUMNS):
        k = rows_of(k_ptr + head, start, n, COLUMNS, D)
        v = rows_of(v_ptr + head, start, n, COLUMNS, D)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(is_seen(first, start, n, ROWS, COLUMNS, CAUSAL), scores, float("-inf"))
        higher = tl.maximum(largest, tl.max(scores, axis=1))
        powers = tl.exp(scores - higher[:, None])
        shrink = tl.exp(largest - higher)
        total = total * shrink + tl.sum(powers, axis=1)
        out = tl.dot(powers.to(v.dtype), v, out * shrink[:, None])
        largest = higher
    rows = first + tl.arange(0, ROWS)
    tl.store(level_ptr + tl.program_id(1) * n + rows, largest + tl.log(total), mask=rows < n)
    put_rows(out_ptr + head, first, n, out / total[:, None], ROWS, D)


@triton.jit
def probabilities(q, k, level, scale, first_row, first_column, n, CAUSAL: tl.constexpr):
    powers = tl.exp(tl.dot(q, tl.trans(k)) * scale - level[:, None])
    return tl.where(is_seen(first_row, first_column, n, q.shape[0], k.shape[0], CAUSAL), powers, 0.0)


@triton.jit
def backward_keys_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    level_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    n,
    scale,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(0) * COLUMNS
    head = tl.program_id(1)
    k = rows_of(k_ptr + head * n * D, first, n, COLUMNS, D)
    v = rows_of(v_ptr + head * n * D, first, n, COLUMNS, D)
    dk = tl.zeros([COLUMNS, D], tl.float32)
    dv = tl.zeros([COLUMNS, D], tl.float32)
    begin = first // ROWS * ROWS if CAUSAL else 0
    for start in range(begin, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        q = rows_of(q_ptr + head * n * D, start, n, ROWS, D)
        dout = rows_of(dout_ptr + head * n * D, start, n, ROWS, D)
        level = tl.load(level_ptr + head * n + rows, mask=rows < n, other=0.0)
        delta = tl.load(delta_ptr + head * n + rows, mask=rows < n, other=0.0)
        p = probabilities(q, k, level, scale, start, first, n, CAUSAL)
        dv += tl.dot(tl.trans(p.to(dout.dtype)), dout)
        ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    put_rows(dk_ptr + head * n * D, first, n, dk * scale, COLUMNS, D)
    put_rows(dv_ptr + head * n * D, first, n, dv, COLUMNS, D)


@triton.jit
def backward_queries_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    level_ptr,
    delta_ptr,
    dq_ptr,
    n,
    scale,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(0) * ROWS
    head = tl.program_id(1)
    rows = first + tl.arange(0, ROWS)
    q = rows_of(q_ptr + head * n * D, first, n, ROWS, D)
    dout = rows_of(dout_ptr + head * n * D, first, n, ROWS, D)
    level = tl.load(level_ptr + head * n + rows, mask=rows < n, other=0.0)
    delta = tl.load(delta_ptr + head * n + rows, mask=rows < n, other=0.0)
    dq = tl.zeros([ROWS, D], tl.float32)
    end = tl.minimum(n, first + ROWS) if CAUSAL else n
    for start in range(0, end, COLUMNS):
        k = rows_of(k_ptr + head * n * D, start, n, COLUMNS, D)
        v = rows_of(v_ptr + head * n * D, start, n, COLUMNS, D)
        p = probabilities(q, k, level, scale, first, start, n, CAUSAL)
        ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k)
    put_rows(dq_ptr + head * n * D, first, n, dq * scale, ROWS, D)


def forward(q, k, v, causal, rows=32, columns=16):
    heads, n, d = q.shape
    out, level = np.empty_like(q), np.empty((heads, n), np.float32)
    sizes = {"ROWS": rows, "COLUMNS": columns, "D": d, "CAUSAL": causal}
    forward_kernel[(triton.cdiv(n, rows), heads)](q, k, v, out, level, n, d**-0.5, **sizes)
    return out, level


def backward(q, k, v, out, level, dout, causal, rows=16, columns=32):
    heads, n, d = q.shape
    delta = (dout.astype(np.float32) * out.astype(np.float32)).sum(axis=2)
    dq, dk, dv = (np.empty_like(q) for _ in range(3))
    sizes = {"ROWS": rows, "COLUMNS": columns, "D": d, "CAUSAL": causal}
    given = q, k, v, dout, level, delta
    backward_keys_kernel[(triton.cdiv(n, columns), heads)](*given, dk, dv, n, d**-0.5, **sizes)
    backward_queries_kernel[(triton.cdiv(n, rows), heads)](*given, dq, n, d**-0.5, **sizes)
    return dq, dk, dv


def expected(q, k, v, dout, causal):
    """The output, the logarithms of sums, and the gradients of q, k and v, in float64."""
    scale, n = q.shape[2] ** -0.5, q.shape[1]
    scores = q @ k.swapaxes(1, 2) * scale
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    level = np.log(np.exp(scores).sum(axis=2))
    p = np.exp(scores - level[..., None])
    out = p @ v
    ds = p * (dout @ v.swapaxes(1, 2) - (dout * out).sum(axis=2, keepdims=True))
    return out, level, ds @ k * scale, ds.swapaxes(1, 2) @ q * scale, p.swapaxes(1, 2) @ dout


def main():
    rng = np.random.default_rng(0)
    for name in asked_types():
        for heads, n, causal in ((1, 32, False), (2, 50, True), (2, 50, False)):
            q, k, v, dout = (normal(rng, (heads, n, 16), name) for _ in range(4))
            out, level, *gradients = expected(*exact(q, k, v, dout), causal)
            found_out, found_level = forward(q, k, v, causal)
            assert_near(found_out, out, name)
            assert_near(found_level, level, name)
            for found, wanted in zip(backward(q, k, v, found_out, found_level, dout, causal), gradients, strict=True):
                assert_near(found, wanted, name)


if __name__ == "__main__":
    main()
