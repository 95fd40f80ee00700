"""`and`, `or`, `not` and chains of comparisons: of blocks elementwise, of scalars as Python has them."""

import inspect

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError

ASKED = []


@triton.jit
def asked(x):
    ASKED.append(x)
    return x


@triton.jit
def window_kernel(x, out, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, INVERT: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    inside = row < rows and col < cols and (1 <= row + 0 < rows - 1 or not col > 0)
    if INVERT and not rows > 100:
        inside = not inside
    # a comment that stands at the margin
    values = tl.load(x + row * COLS + col, mask=inside, other=-1)
    tl.store(out + row * COLS + col, values)


@pytest.mark.parametrize("invert", [False, True])
def test_blocks_are_joined_elementwise(invert):
    x, out = np.arange(8 * 16, dtype=np.float32).reshape(8, 16), np.zeros((8, 16), np.float32)
    window_kernel[(1,)](x, out, 7, 13, ROWS=8, COLS=16, INVERT=invert)
    row, col = np.ogrid[:8, :16]
    inside = (row < 7) & (col < 13) & (((row >= 1) & (row < 6)) | (col <= 0))
    np.testing.assert_array_equal(out, np.where(inside != invert, x, -1))


@triton.jit
def floats_kernel(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, (a and b).to(tl.int32))
    tl.store(out + BLOCK + at, (a or b).to(tl.int32))
    tl.store(out + 2 * BLOCK + at, (not a).to(tl.int32))


@pytest.mark.usefixtures("lenient")  # Triton takes booleans
def test_numbers_that_are_not_zero_are_true():
    x, y = np.array([0, 0, 2, 0.5], np.float32), np.array([0, 3, 0, 4], np.float32)
    out = np.full(12, -1, np.int32)
    floats_kernel[(1,)](x, y, out, BLOCK=4)
    assert out.tolist() == [0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0]


@pytest.mark.usefixtures("lenient")  # the kernel changes a list of its module
def test_scalars_are_asked_in_order_and_no_further_than_needed():
    outer = 3

    @triton.jit
    def kernel(n, out):
        ASKED.clear()
        if asked(n > 5) and asked(n > 1):
            tl.store(out, 1)
        if asked(n == outer) or asked(n > 2):
            tl.store(out + 1, 1)
        if 2 < asked(n) < 4 < 5:
            tl.store(out + 2, 1)

    out = np.zeros(3, np.int32)
    kernel[(1,)](3, out)
    assert out.tolist() == [0, 1, 1]
    assert len(ASKED) == 3


def test_errors_have_the_lines_of_the_source():
    with pytest.raises(KbError) as caught:
        broken_kernel[(1,)](np.zeros(4, np.float32))
    line = inspect.getsourcelines(broken_kernel.fn)[1] + 3
    assert str(caught.value).startswith(f"test_boolean_operators.py:{line}, in program 0")


@triton.jit
def broken_kernel(x):
    at = tl.arange(0, 4)
    tl.store(x + at, 1, mask=at < 3 and tl.no_such_name(at))
