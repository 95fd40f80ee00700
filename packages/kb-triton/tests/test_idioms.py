"""Idioms of published kernels that stand alone: each by its meaning in numpy."""

import numpy as np

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def optional_kernel(x_ptr, bias_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if bias_ptr:
        x += tl.load(bias_ptr + at)
    tl.store(out_ptr + at, x % 3.0)


def test_a_pointer_is_true_and_none_is_not():
    x, bias = np.random.default_rng(0).normal(0, 9, (2, 8)).astype(np.float32)
    for given in (bias, None):
        out = np.zeros(8, np.float32)
        optional_kernel[(1,)](x, given, out, BLOCK=8)
        np.testing.assert_array_equal(out, np.fmod(x if given is None else x + given, np.float32(3)))


@tl.constexpr
def unsigned_of(bits):
    bits = bits.value if isinstance(bits, tl.constexpr) else bits
    return tl.core.get_int_dtype(bits, False)


@triton.jit
def types_kernel(x_ptr, out_ptr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here: tl.constexpr = unsigned_of(x_ptr.dtype.element_ty.primitive_bitwidth)
    there: tl.constexpr = unsigned_of(BITS)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(here).to(there))


def test_constants_are_unwrapped_where_they_are_wrapped():
    x, out = np.array([-1, 2, 300, -70000], np.int32), np.zeros(4, np.uint16)
    types_kernel[(1,)](x, out, BITS=16, BLOCK=4)
    np.testing.assert_array_equal(out, x.astype(np.uint32).astype(np.uint16))


@triton.jit
def divided_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n, other=0), tl.load(y_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, x // y, mask=at < n)
    tl.store(out_ptr + BLOCK + at, x % y, mask=at < n)


def test_elements_that_a_mask_leaves_out_may_divide_by_zero():
    x, y = np.array([7, -7, 9], np.int32), np.array([2, 2, -4], np.int32)
    out = np.zeros(8, np.int32)
    divided_kernel[(1,)](x, y, out, 3, BLOCK=4)
    assert out.tolist() == [3, -3, -2, 0, 1, -1, 1, 0]


@triton.jit
def larger_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))


def test_a_maximum_that_propagates_nan():
    x, y = np.array([np.nan, 1, 2, 3], np.float32), np.array([1, np.nan, 1, 4], np.float32)
    out = np.zeros(4, np.float32)
    larger_kernel[(1,)](x, y, out, BLOCK=4)
    np.testing.assert_array_equal(out, [np.nan, np.nan, 2, 4])
