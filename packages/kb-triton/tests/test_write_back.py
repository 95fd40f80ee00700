"""What a launch wrote is in the arrays of the process afterwards, and nothing else changed."""

import numpy as np

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def sums_kernel(x, sums, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sums + tl.program_id(0) % 2, tl.sum(tl.load(x + offsets, mask=offsets < n, other=0.0)))


def test_atomics_without_a_store_are_written_back():
    x, sums = np.arange(100, dtype=np.float32), np.full(4, 7, np.float32)
    sums_kernel[(4,)](x, sums, 100, BLOCK=32)
    even, odd = x[:32].sum() + x[64:96].sum(), x[32:64].sum() + x[96:].sum()
    assert sums.tolist() == [7 + even, 7 + odd, 7, 7]
