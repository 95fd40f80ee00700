"""Shapes and types of pointers that tl.where chose of two tensors."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError

N = 4


@triton.jit
def shapes(x_ptr, y_ptr, rows_ptr, turned_ptr, pairs_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    places = at[:, None] * N + at[None, :]
    of_rows = tl.where(at % 2 == 0, x_ptr, y_ptr) + at * N
    pointers = of_rows[:, None] + at[None, :]
    tl.store(rows_ptr + places, tl.load(pointers))
    tl.store(turned_ptr + places, tl.load(tl.trans(pointers)))
    pairs = tl.arange(0, N // 2)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(pairs_ptr + pairs, tl.load(tl.reshape(of_rows, (N // 2, 2))))


def test_chosen_pointers_take_other_shapes():
    x = np.arange(N * N, dtype=np.float32).reshape(N, N)
    y = -x - 100
    rows, turned, pairs = np.zeros_like(x), np.zeros_like(x), np.zeros(N, np.float32)
    shapes[(1,)](x, y, rows, turned, pairs, N=N)
    expected = np.where(np.arange(N)[:, None] % 2 == 0, x, y)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(turned, expected.T)
    np.testing.assert_array_equal(pairs, expected[:, 0])


@triton.jit
def mixes(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(tl.where(at < 2, x_ptr + at, y_ptr + at)))


@pytest.mark.usefixtures("lenient")  # the words are those of a program
def test_pointers_to_elements_of_two_types_are_refused():
    x, y, out = np.ones(N, np.int32), np.ones(N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(KbError, match=r"pointer<int32> and pointer<fp32>, needs pointers to elements of one type"):
        mixes[(1,)](x, y, out, N=N)
