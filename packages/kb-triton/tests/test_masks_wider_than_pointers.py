"""Transfers whose mask or value has more elements than the pointers: all of them broadcast together, as in Triton."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl

pytestmark = pytest.mark.usefixtures("lenient")  # Triton's masks are no larger than the pointers


@triton.jit
def k_one_row(x, o, n, M: tl.constexpr, B: tl.constexpr):
    """Row 0 of a block is loaded, and the others are filled: a block of M rows from pointers of one."""
    r, c = tl.arange(0, M), tl.arange(0, B)
    v = tl.load(x + c[None, :], mask=(r[:, None] == 0) & (c[None, :] < n), other=-1.0)
    tl.store(o + r[:, None] * B + c[None, :], v)


def test_a_load_is_as_large_as_its_mask():
    x, o = np.arange(1, 17, dtype=np.float32), np.zeros((4, 16), np.float32)
    k_one_row[1,](x, o, 11, M=4, B=16)
    expected = np.full((4, 16), -1.0, np.float32)
    expected[0, :11] = x[:11]
    np.testing.assert_array_equal(o, expected)


@triton.jit
def k_store(o, M: tl.constexpr, B: tl.constexpr):
    """Of M rows that are stored to one, the mask leaves row 2."""
    r, c = tl.arange(0, M), tl.arange(0, B)
    tl.store(o + c[None, :], (10 * r[:, None] + c[None, :]).to(tl.float32), mask=r[:, None] == 2)


def test_a_store_is_as_large_as_its_mask():
    o = np.zeros(16, np.float32)
    k_store[1,](o, M=4, B=16)
    np.testing.assert_array_equal(o, 20.0 + np.arange(16))


@triton.jit
def k_add(o, M: tl.constexpr, B: tl.constexpr):
    """M rows are added to one."""
    r, c = tl.arange(0, M), tl.arange(0, B)
    tl.atomic_add(o + c[None, :], (10 * r[:, None] + c[None, :]).to(tl.float32), mask=r[:, None] < 3)


def test_an_atomic_is_as_large_as_its_mask():
    o = np.zeros(16, np.float32)
    k_add[1,](o, M=4, B=16)
    np.testing.assert_array_equal(o, 30.0 + 3 * np.arange(16))
