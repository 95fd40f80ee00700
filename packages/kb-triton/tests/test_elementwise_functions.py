"""tl.map_elementwise: functions of scalars with branches, for each element of blocks."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError


@triton.jit
def bent(x, slope):
    if x > 0:
        return x
    if x > -1:
        return slope * x
    return -slope


@triton.jit
def sign_of(x):
    if x > 0:
        found = 1
    elif x < 0:
        found = -1
    else:
        found = 0
    return found


@triton.jit
def bends(x_ptr, slopes_ptr, out_ptr, signs_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    slopes = tl.load(slopes_ptr + tl.arange(0, COLUMNS))
    tl.store(out_ptr + at, tl.map_elementwise(bent, tl.load(x_ptr + at), slopes[None, :]))
    tl.store(signs_ptr + at, tl.map_elementwise(sign_of, at - 5))


def test_each_element_goes_its_own_way_through_the_branches():
    rng = np.random.default_rng(0)
    x, slopes = 2 * rng.standard_normal((4, 8), np.float32), rng.standard_normal(8, np.float32)
    out, signs = np.empty_like(x), np.empty((4, 8), np.int32)
    bends[(1,)](x, slopes, out, signs, ROWS=4, COLUMNS=8)
    np.testing.assert_array_equal(out, np.where(x > 0, x, np.where(x > -1, slopes * x, -slopes + 0 * x)))
    np.testing.assert_array_equal(signs, np.sign(np.arange(32).reshape(4, 8) - 5))


@triton.jit
def in_order(a, b, c, d):
    if a > b:
        a, b = b, a
    return a, b, c + d, c - d


@triton.jit
def orders_pairs(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    ordered, mixed = tl.map_elementwise(in_order, tl.load(x_ptr + at), tl.load(y_ptr + at), pack=2)
    tl.store(out_ptr + at, ordered)
    tl.store(out_ptr + N + at, mixed)


def test_a_call_takes_and_returns_as_many_neighbours_as_pack_says():
    x, y = np.random.default_rng(1).standard_normal((2, 16), np.float32)
    out = np.empty((2, 16), np.float32)
    orders_pairs[(1,)](x, y, out, N=16)
    np.testing.assert_array_equal(out[0], np.sort(x.reshape(8, 2), axis=1).ravel())
    pairs = y.reshape(8, 2)
    np.testing.assert_array_equal(out[1], np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).ravel())


@triton.jit
def halved(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    return n


@triton.jit
def two_or_one(x):
    if x > 0:
        return x, x
    return x


@triton.jit
def maps(x_ptr, F: tl.constexpr, PACK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, 8), tl.map_elementwise(F, tl.load(x_ptr + tl.arange(0, 8)), pack=PACK))


@pytest.mark.usefixtures("lenient")  # the sentences are those of a program
@pytest.mark.parametrize(
    ("function", "pack", "sentence"),
    [
        (
            halved,
            1,
            "got a function of tl.map_elementwise with over 256 paths through its branches, needs fewer branches",
        ),
        (two_or_one, 1, "got a function of tl.map_elementwise with 2 results or 1, needs the same number on each path"),
        (sign_of, 3, "got tl.map_elementwise of 1 blocks with pack=3, needs a block, and a power of two"),
        (sign_of, 16, "got tl.map_elementwise with pack=16 of 8 elements, needs a multiple of pack"),
    ],
)
def test_a_wrong_mapping_is_refused(function, pack, sentence):
    with pytest.raises(KbError, match=sentence):
        maps[(1,)](np.ones(8, np.float32), F=function, PACK=pack)


@triton.jit
def maps_a_constant(out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.map_elementwise(sign_of, tl.full((N,), 3.0, tl.float32)))


def test_a_block_of_one_number_goes_one_way():
    out = np.zeros(4, np.float32)
    maps_a_constant[(1,)](out, N=4)
    assert out.tolist() == [1, 1, 1, 1]
