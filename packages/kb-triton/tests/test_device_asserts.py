"""Assertions in kernels: known conditions at once, pending ones with the data of the launch."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_engine.program import AssertionFailure


@triton.jit
def checked_kernel(x_ptr, y_ptr, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.device_assert(x < LIMIT, "too large")
    tl.store(y_ptr + at, x * 2)


@triton.jit
def masked_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N, other=-1.0)
    tl.device_assert(x >= 0, "negative", mask=at < N)
    tl.store(y_ptr + at, x, mask=at < N)


@triton.jit
def summed_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    total = tl.sum(x * x)
    assert total < 100.0, "a large sum"
    tl.store(y_ptr, total)


def line_of(kernel, text):
    import inspect

    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_a_pending_condition_is_checked_with_the_first_element_that_fails():
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    checked_kernel[(2,)](x, y, LIMIT=16, BLOCK=8)
    np.testing.assert_array_equal(y, x * 2)
    with pytest.raises(AssertionFailure) as caught:
        checked_kernel[(2,)](x, y, LIMIT=13, BLOCK=8)
    line = line_of(checked_kernel, "device_assert")
    assert str(caught.value) == (
        f"test_device_asserts.py:{line}, in program 1 on sip0.cube0.pe1: got a tl.device_assert that does not hold at "
        "[5]: too large, needs a true condition"
    )
    assert caught.value.exit_code == 1
    checked_kernel[(2,)](x, y, LIMIT=16, BLOCK=8)  # a later launch checks its own conditions alone


def test_a_mask_leaves_elements_out():
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    masked_kernel[(1,)](x, y, 5, BLOCK=8)
    x[3] = -2
    with pytest.raises(AssertionFailure, match=r"does not hold at \[3\]: negative"):
        masked_kernel[(1,)](x, y, 5, BLOCK=8)
    masked_kernel[(1,)](x, y, 3, BLOCK=8)


def test_an_assert_of_a_computed_number_is_checked():
    x, y = np.full(8, 3, np.float32), np.zeros(1, np.float32)
    summed_kernel[(1,)](x, y, BLOCK=8)
    assert y[0] == 72
    x[0] = 7
    with pytest.raises(AssertionFailure, match=r"does not hold: a large sum"):
        summed_kernel[(1,)](x, y, BLOCK=8)
