"""Layer norm, forward and backward: y = (x - mean) / sqrt(var + eps) * weight + bias, of each row.

The gradients of weight and bias are sums over rows. Programs add theirs to a few partial sums, each under a lock, and a
second kernel adds up the partial sums.
"""

import numpy as np
import triton
import triton.language as tl
from numbers_of import asked_types, assert_near, exact, normal

EPS = 1e-5


@triton.jit
def forward_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, scale_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + row * n + start + at, mask=start + at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + at, mask=start + at < n, other=0.0).to(tl.float32)
        centred = tl.where(start + at < n, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)
    for start in range(0, n, BLOCK):
        inside = start + at < n
        x = tl.load(x_ptr + row * n + start + at, mask=inside).to(tl.float32)
        weight = tl.load(weight_ptr + start + at, mask=inside).to(tl.float32)
        bias = tl.load(bias_ptr + start + at, mask=inside).to(tl.float32)
        tl.store(y_ptr + row * n + start + at, (x - mean) * scale * weight + bias, mask=inside)


@triton.jit
def backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    scale_ptr,
    dx_ptr,
    sums_ptr,
    lock_ptr,
    n,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    dy = tl.load(dy_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + at, mask=inside, other=0.0).to(tl.float32)
    mean, scale = tl.load(mean_ptr + row), tl.load(scale_ptr + row)
    unit = tl.where(inside, (x - mean) * scale, 0.0)
    d_unit = dy * weight
    along = tl.sum(d_unit * unit, axis=0) / n
    dx = (d_unit - tl.sum(d_unit, axis=0) / n - unit * along) * scale
    tl.store(dx_ptr + row * n + at, dx, mask=inside)

    part = row % PARTS
    d_weight_ptr = sums_ptr + part * 2 * n + at
    d_bias_ptr = d_weight_ptr + n
    while tl.atomic_cas(lock_ptr + part, 0, 1) != 0:
        pass
    d_weight = tl.load(d_weight_ptr, mask=inside) + dy * unit
    d_bias = tl.load(d_bias_ptr, mask=inside) + dy
    tl.store(d_weight_ptr, d_weight, mask=inside)
    tl.store(d_bias_ptr, d_bias, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + part, 0)


@triton.jit
def add_parts_kernel(sums_ptr, out_ptr, parts, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, parts, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < parts)[:, None] & (columns < n)[None, :]
        total += tl.load(sums_ptr + rows[:, None] * n + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, axis=0), mask=columns < n)


def forward(x, weight, bias, block=64):
    rows, n = x.shape
    y, mean, scale = np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)
    forward_kernel[(rows,)](x, weight, bias, y, mean, scale, n, EPS, BLOCK=block)
    return y, mean, scale


def backward(dy, x, weight, mean, scale, parts=3):
    """The gradients of x, weight and bias; the last two in f32."""
    rows, n = x.shape
    dx = np.empty_like(x)
    sums, locks = np.zeros((parts, 2, n), np.float32), np.zeros(parts, np.int32)
    block = triton.next_power_of_2(n)
    backward_kernel[(rows,)](dy, x, weight, mean, scale, dx, sums, locks, n, PARTS=parts, BLOCK=block)
    assert not locks.any()
    added = np.empty((2, n), np.float32)
    add_parts_kernel[(triton.cdiv(2 * n, 32),)](sums, added, parts, 2 * n, ROWS=2, BLOCK=32)
    return dx, *added


def main():
    rng = np.random.default_rng(0)
    for name in asked_types():
        for rows, n in ((1, 1), (11, 150)):
            x, dy = normal(rng, (rows, n), name), normal(rng, (rows, n), name)
            weight, bias = normal(rng, n, name), normal(rng, n, name)
            wide_x, wide_dy, wide_weight, wide_bias = exact(x, dy, weight, bias)
            expected_scale = 1 / np.sqrt(wide_x.var(axis=1, keepdims=True) + EPS)
            unit = (wide_x - wide_x.mean(axis=1, keepdims=True)) * expected_scale
            d_unit = wide_dy * wide_weight
            along = (d_unit * unit).mean(axis=1, keepdims=True)
            expected_dx = (d_unit - d_unit.mean(axis=1, keepdims=True) - unit * along) * expected_scale

            y, mean, scale = forward(x, weight, bias)
            assert_near(y, unit * wide_weight + wide_bias, name)
            dx, d_weight, d_bias = backward(dy, x, weight, mean, scale)
            assert_near(dx, expected_dx, name)
            assert_near(d_weight, (wide_dy * unit).sum(axis=0), "f32")
            assert_near(d_bias, wide_dy.sum(axis=0), "f32")


if __name__ == "__main__":
    main()
