"""Softmax of rows: exp(x - max) / sum of each row. A program takes every P-th row of P programs."""

import numpy as np
import triton
import triton.language as tl
from numbers_of import asked_types, assert_near, exact, normal


@triton.jit
def row_softmax_kernel(x_ptr, y_ptr, x_stride, y_stride, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + at, mask=inside, other=float("-inf")).to(tl.float32)
        powers = tl.exp(x - tl.max(x, axis=0))
        y = powers / tl.sum(powers, axis=0)
        tl.store(y_ptr + row * y_stride + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def row_softmax(x, programs=8):
    """Softmax of the rows of *x*, whose rows may lie apart."""
    rows, columns = x.shape
    y = np.empty_like(x, order="C")
    apart = x.strides[0] // x.itemsize
    block = triton.next_power_of_2(columns)
    row_softmax_kernel[(min(rows, programs),)](x, y, apart, columns, rows, columns, BLOCK=block)
    return y


def main():
    rng = np.random.default_rng(0)
    for name in asked_types():
        for rows, columns in ((1, 1), (37, 129), (8, 256)):
            x = normal(rng, (rows, columns + 3), name)[:, :columns]
            (wide,) = exact(x)
            powers = np.exp(wide - wide.max(axis=1, keepdims=True))
            assert_near(row_softmax(x), powers / powers.sum(axis=1, keepdims=True), name)


if __name__ == "__main__":
    main()
