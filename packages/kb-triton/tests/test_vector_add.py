"""A vector add as published code has it, over numpy arrays."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    output = x + y
    tl.store(output_ptr + offsets, output, mask=mask)


@pytest.mark.parametrize("size", [1, 1000, 4096])
def test_vector_add(size):
    x, y = np.random.default_rng(0).standard_normal((2, size), np.float32)
    output = np.zeros_like(x)
    grid = lambda meta: (-(-size // meta["BLOCK_SIZE"]),)  # noqa: E731 - as published code has it
    add_kernel[grid](x, y, output, size, BLOCK_SIZE=256)
    np.testing.assert_array_equal(output, x + y)
