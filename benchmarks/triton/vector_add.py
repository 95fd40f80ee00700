"""Sums of two vectors: one block of elements a program, the last one masked."""

import numpy as np
import triton
import triton.language as tl
from numbers_of import asked_types, normal


@triton.jit
def vector_add_kernel(left_ptr, right_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    left = tl.load(left_ptr + at, mask=inside)
    right = tl.load(right_ptr + at, mask=inside)
    tl.store(sum_ptr + at, left + right, mask=inside)


def vector_add(left, right, block=1024):
    total = np.empty_like(left)
    vector_add_kernel[(triton.cdiv(left.size, block),)](left, right, total, left.size, BLOCK=block)
    return total


def main():
    rng = np.random.default_rng(0)
    for name in asked_types():
        for n in (1, 1024, 5003):
            left, right = normal(rng, n, name), normal(rng, n, name)
            np.testing.assert_array_equal(vector_add(left, right), left + right)


if __name__ == "__main__":
    main()
