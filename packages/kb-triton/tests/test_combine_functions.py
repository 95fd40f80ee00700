"""Functions of the kernel that almost are a sum or an extreme: none of them is taken for one."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.language.combining import reduction_of
from kb_triton.language.tensors.dtypes import float32, int32, uint32

LIMIT = tl.constexpr(1000)


@triton.jit
def count_of_key(x, y):
    """Adds the low halves of two words whose high halves agree, and starts anew where these differ."""
    same = (x & 0xFFFF0000) == (y & 0xFFFF0000)
    return tl.where(same, x + (y & 0xFFFF), y)


@triton.jit
def sum_up_to_limit(x, y):
    return tl.minimum(x + y, LIMIT)


@triton.jit
def sum_but_for_one_number(x, y):
    """Python keeps both numbers as one tuple."""
    instead, special = 7, 1000
    return tl.where(x + y == special, instead, x + y)


@triton.jit
def sum_but_for_one_number_in_a_lambda(x, y):
    return (lambda total: tl.where(total == 1000, 7, total))(x + y)


@triton.jit
def larger(x, y):
    return tl.where(x > y, x, y)


@triton.jit
def k_scan(x, o, B: tl.constexpr, combine: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.associative_scan(tl.load(x + i), 0, combine))


@triton.jit
def k_reduce(x, o, B: tl.constexpr, combine: tl.constexpr):
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, B)), 0, combine))


def test_a_scan_by_keys_in_high_bits():
    keys = np.array([3, 3, 3, 7, 7, 40000, 65535, 65535], np.uint32)
    o = np.zeros(8, np.uint32)
    k_scan[1,](keys << 16 | np.uint32(1), o, B=8, combine=count_of_key)
    np.testing.assert_array_equal(o & 0xFFFF, [1, 2, 3, 1, 2, 1, 1, 2])
    np.testing.assert_array_equal(o >> 16, keys)


def test_a_sum_with_a_limit_that_is_seldom_reached():
    o = np.zeros(1, np.float32)
    k_reduce[1,](np.full(8, 200, np.float32), o, B=8, combine=sum_up_to_limit)
    assert o[0] == 1000


@pytest.mark.usefixtures("lenient")  # a function has a lambda
@pytest.mark.parametrize("combine", [sum_but_for_one_number, sum_but_for_one_number_in_a_lambda])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_a_sum_but_for_one_number(combine, dtype):
    o = np.zeros(1, dtype)
    k_reduce[1,](np.array([400, 600], dtype), o, B=2, combine=combine)
    assert o[0] == 7


def test_an_extreme_of_a_whole_type():
    x = np.array([5, -7, 2**31 - 1, -(2**31)], np.int32)
    o = np.zeros(4, np.int32)
    k_scan[1,](x, o, B=4, combine=larger)
    np.testing.assert_array_equal(o, np.maximum.accumulate(x))
    k_scan[1,](x.view(np.uint32), o.view(np.uint32), B=4, combine=larger)
    np.testing.assert_array_equal(o.view(np.uint32), np.maximum.accumulate(x.view(np.uint32)))


@triton.jit
def k_kinds(x):
    tl.static_assert(reduction_of(larger, int32) == "max")
    tl.static_assert(reduction_of(larger, float32) == "max_number")
    tl.static_assert(reduction_of(sum_up_to_limit, float32) is None)
    tl.static_assert(reduction_of(count_of_key, uint32) is None)


def test_a_function_of_two_numbers_alone_is_the_chips_own():
    k_kinds[1,](np.zeros(1, np.float32))


@triton.jit
def step(x, y):
    return x + y


@triton.jit
def product(x, y):
    return x * y


@triton.jit
def by_steps(x, y):
    return step(x, y)


def test_a_function_that_calls_another_one_than_before_is_another_reduction(monkeypatch):
    x, o = np.array([2, 3, 4, 100], np.float32), np.zeros(1, np.float32)
    for other, wanted in ((step, 109), (product, 2400), (sum_up_to_limit, 109)):
        monkeypatch.setitem(globals(), "step", other)
        k_reduce[1,](x, o, B=4, combine=by_steps)
        assert o[0] == wanted


@triton.jit
def larger_of(x, y):
    return tl.maximum(x, y)


def test_no_module_is_asked_for_what_it_has_not(monkeypatch):
    x, o, asked = np.array([2, 3, 4, 100], np.float32), np.zeros(1, np.float32), []
    k_reduce[1,](x, o, B=4, combine=larger_of)
    monkeypatch.setattr(tl, "__getattr__", asked.append)
    k_reduce[1,](x, o, B=4, combine=larger_of)
    assert (o[0], asked) == (100, [])
