"""A vector add as published code has it, over numpy arrays."""

from pathlib import Path

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.host import Device, Options

ONE_CUBE = Path(__file__).parents[3] / "topologies/one_cube.yaml"


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


def test_a_sum_of_two_to_the_24_elements_has_nine_tenths_of_the_bandwidth_of_the_hbm():
    device = Device.of(Options(topology=str(ONE_CUBE), issue="scoreboard"))
    n, block = 1 << 24, 8192
    x, output = np.ones(n, np.float32), np.empty(n, np.float32)
    arguments = {"x_ptr": x, "y_ptr": x, "output_ptr": output, "n_elements": n, "BLOCK_SIZE": block}
    taken_ps = device.time_ps(add_kernel, (n // block, 1, 1), arguments)
    least_ps = 3 * 4 * n * 1000 / 819.2  # of 3 x 4 bytes an element, at 819.2 GB/s: 245.76 us
    assert least_ps < taken_ps < least_ps / 0.9
