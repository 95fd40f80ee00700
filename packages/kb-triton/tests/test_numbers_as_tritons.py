"""Numbers where Triton has a rule of its own: NaN, integers beside narrow floats, integers of one bit."""

import ml_dtypes
import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl

NAN = np.array([np.nan, 1.0, np.nan, -3.0, 7.5, np.inf, -np.inf, 0.0], np.float32)
OTHER = np.array([2.0, np.nan, np.nan, 4.0, -1.0, np.nan, 5.0, -6.0], np.float32)


@triton.jit
def extremes(x, y, out, reduced, found, B: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, tl.maximum(a, b))
    tl.store(out + B + at, tl.minimum(a, b))
    tl.store(out + 2 * B + at, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 3 * B + at, tl.clamp(a, -2.0, 2.0))
    tl.store(reduced, tl.max(b, 0))
    tl.store(reduced + 1, tl.min(b, 0))
    largest, where = tl.max(b, 0, return_indices=True)
    tl.store(found, where)
    tl.store(found + 1, tl.argmin(b, 0))
    tl.store(reduced + 2, largest)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_extremes_leave_out_nan_unless_they_are_told_to_propagate_it(kind):
    x, y = NAN.astype(kind), OTHER.astype(kind)
    out, reduced, found = np.zeros((4, 8), np.float32), np.zeros(3, np.float32), np.zeros(2, np.int32)
    extremes[1,](x, y, out, reduced, found, B=8)
    clamped = np.fmin(np.fmax(NAN, np.float32(-2)), np.float32(2))
    np.testing.assert_array_equal(out, [np.fmax(NAN, OTHER), np.fmin(NAN, OTHER), np.maximum(NAN, OTHER), clamped])
    assert reduced.tolist() == [5.0, -6.0, 5.0]
    assert found.tolist() == [6, 7]


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def nan_larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def folded(x, out, scanned, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out, tl.reduce(tl.load(x + at), 0, larger))
    tl.store(out + 1, tl.reduce(tl.load(x + at), 0, nan_larger))
    tl.store(scanned + at, tl.associative_scan(tl.load(x + at), 0, larger))


def test_a_function_of_a_reduction_says_what_becomes_of_nan():
    out, scanned = np.zeros(2, np.float32), np.zeros(8, np.float32)
    folded[1,](NAN, out, scanned, B=8)
    np.testing.assert_array_equal(out, [np.inf, np.nan])
    np.testing.assert_array_equal(scanned, np.fmax.accumulate(NAN))


@triton.jit
def beside_integers(x, n, out, same, B: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at), tl.load(n + at)
    tl.static_assert((a + b).dtype == out.dtype.element_ty)
    tl.static_assert((a / b).dtype == tl.float32)
    tl.store(out + at, a + b)
    tl.store(same + at, a == b)


def test_an_integer_is_rounded_to_f16_before_an_op_and_makes_f32_of_bf16():
    n = np.array([2049, 4097, 70000, -2051], np.int32)
    x = np.array([1.0, 0.5, 0.0, 2048.0], np.float32)
    out, same = np.zeros(4, np.float16), np.zeros(4, bool)
    with np.errstate(over="ignore"):
        rounded = n.astype(np.float16)
    beside_integers[1,](x.astype(np.float16), n, out, same, B=4)
    np.testing.assert_array_equal(out, (x + rounded.astype(np.float32)).astype(np.float16))
    wide = np.zeros(4, np.float32)
    beside_integers[1,](x.astype(ml_dtypes.bfloat16), n, wide, same, B=4)
    np.testing.assert_array_equal(wide, x + n.astype(np.float32))
    beside_integers[1,](rounded, n, out, same, B=4)
    assert same.all()


@triton.jit
def bits(x, y, out, B: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at) > 0, tl.load(y + at) > 0
    tl.store(out + at, a + b)
    tl.store(out + B + at, a - b)
    tl.store(out + 2 * B + at, a * b)


def test_arithmetic_on_integers_of_one_bit_wraps():
    x, y = np.array([0, 0, 1, 1], np.float32), np.array([0, 1, 0, 1], np.float32)
    out = np.zeros((3, 4), bool)
    bits[1,](x, y, out, B=4)
    assert out.astype(int).tolist() == [[0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]


@triton.jit
def products(x, out, B: tl.constexpr):
    found = tl.cumprod(tl.load(x + tl.arange(0, B)), 0)
    tl.static_assert(found.dtype == tl.int32)
    tl.store(out + tl.arange(0, B), found)


def test_running_products_of_narrow_integers_have_32_bits():
    x, out = np.array([100, -100, 3, 2], np.int8), np.zeros(4, np.int32)
    products[1,](x, out, B=4)
    assert out.tolist() == [100, -10000, -30000, -60000]


@triton.jit
def sums_of_bits(x, counts, parity, prefixes, widths, B: tl.constexpr):
    at = tl.arange(0, B)
    bits = tl.load(x + at) > 0
    tl.store(counts, tl.sum(bits))
    tl.store(counts + 1, tl.sum(at > 2))
    tl.store(counts + 2, tl.sum(tl.full((B,), 1, tl.int1)))
    tl.store(counts + 3, tl.sum(tl.load(x + at) > -9, dtype=tl.int8))
    tl.store(parity, tl.sum(bits, dtype=tl.int1))
    tl.store(parity + 1, tl.sum(at > 2, dtype=tl.int1))
    tl.store(parity + 2, tl.sum(tl.full((B,), 1, tl.int1), dtype=tl.int1))
    tl.store(parity + 3, tl.xor_sum(bits))
    tl.store(parity + 4, tl.max(bits, 0))
    tl.store(parity + 5, tl.min(bits, 0))
    tl.store(prefixes + at, tl.cumsum(bits, 0))
    tl.store(prefixes + B + at, tl.cumsum(bits, 0, dtype=tl.int1))
    tl.store(prefixes + 2 * B + at, tl.cumsum(at > 2, 0, dtype=tl.int1))
    tl.static_assert(tl.sum(bits).dtype == tl.uint32)
    tl.static_assert(tl.sum(bits, dtype=tl.int1).dtype == tl.int1)
    tl.static_assert(tl.xor_sum(bits).dtype == tl.int1)
    tl.static_assert(tl.max(bits, 0).dtype == tl.int32)
    tl.static_assert((-tl.full((B,), 1, tl.int1)).dtype == tl.int1)
    tl.store(widths + at, (-tl.full((B,), 1, tl.int1)).to(tl.int32))


def test_a_sum_of_bits_counts_and_as_int1_is_whether_the_count_is_odd():
    x = np.array([-1, 2, 3, -4, 5, -6, -7, 8], np.float32)
    bits, index = x > 0, np.arange(8) > 2
    counts, parity = np.zeros(4, np.int32), np.full(6, 9, np.int32)
    prefixes, negative = np.zeros((3, 8), np.int32), np.zeros(8, np.int32)
    sums_of_bits[1,](x, counts, parity, prefixes, negative, B=8)
    assert counts.tolist() == [4, 5, 8, 8]
    assert parity.tolist() == [0, 1, 0, 0, 1, 0]
    assert prefixes.tolist() == [np.cumsum(bits).tolist(), *((np.cumsum(each) % 2).tolist() for each in (bits, index))]
    assert negative.tolist() == [1] * 8


@triton.jit
def narrow_sum(x, out, B: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, B)), dtype=tl.float16))


def test_a_sum_in_a_narrower_type_rounds_the_elements_first():
    x, out = np.array([1 + 2.0**-12, -1.0, 1 + 2.0**-12, -1.0], np.float32), np.ones(1, np.float32)
    narrow_sum[1,](x, out, B=4)
    assert out[0] == 0


@triton.jit
def wide_integers(x, u, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at), tl.load(u + at)
    tl.store(out + at, a.to(tl.float32))
    tl.store(out + B + at, b.to(tl.float32))
    tl.store(out + 2 * B + at, a + tl.full((B,), 0.0, tl.float32))
    tl.store(out + 3 * B + at, a.to(tl.bfloat16))
    tl.store(out + 4 * B + at, n.to(tl.float32) + at * 0)
    tl.store(out + 5 * B + at, n.to(tl.bfloat16) + at * 0)
    tl.store(out + 6 * B + at, n * tl.full((B,), 1.0, tl.float32))


def test_integers_of_64_bits_become_floats_in_one_rounding():
    # 2^60 + 2^36 and 2^60 + 2^52 are halfway between two numbers of f32 and of bf16; float64 loses the last bit
    given = [2**60 + 2**36 + 1, -(2**60) - 2**36 - 1, 2**60 + 3 * 2**36 - 1, 2**60 + 2**52 + 1]
    x, out = np.array(given), np.zeros((7, 4), np.float32)
    u = np.array([2**60 + 2**36 + 1, 2**63 + 2**39 + 1, 2**64 - 1, 5], np.uint64)
    wide_integers[1,](x, u, out, 2**60 + 2**36 + 1, B=4)
    signed = [2**60 + 2**37, -(2**60) - 2**37, 2**60 + 2**37, 2**60 + 2**52]
    assert out[0].tolist() == out[2].tolist() == signed
    assert out[1].tolist() == [2**60 + 2**37, 2**63 + 2**40, 2**64, 5]
    assert out[3].tolist() == [2**60, -(2**60), 2**60, 2**60 + 2**53]
    assert out[4].tolist() == out[6].tolist() == [2**60 + 2**37] * 4
    assert out[5].tolist() == [2**60] * 4


@triton.jit
def shifted(x, by, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.static_assert((tl.load(x + at) >> tl.load(by + at)).dtype == tl.uint32)
    tl.store(out + at, tl.load(x + at) >> tl.load(by + at))
    tl.store(out + B, tl.load(x) >> tl.load(by + 1))


def test_a_shift_to_the_right_follows_the_sign_of_the_shifted_operand():
    """Triton chooses the arithmetic shift for int8, and has the result in uint32, the common type."""
    x, by, out = np.array([-128, -7, 100, 5], np.int8), np.array([1, 2, 3, 0], np.uint32), np.zeros(5, np.int64)
    shifted[1,](x, by, out, B=4)
    assert out.tolist() == [2**32 - 64, 2**32 - 2, 12, 5, 2**32 - 32]


@triton.jit
def unsigned_numbers(x, narrow, out, n):
    a = tl.load(narrow)
    tl.store(out, n > a)
    tl.store(out + 1, n // a)
    tl.store(out + 2, tl.maximum(n, a))
    b = tl.load(x).to(tl.uint32)
    tl.store(out + 3, n > b)
    tl.store(out + 4, n % b)
    c = tl.load(x) > 0.5
    tl.store(out + 5, n >= c)
    tl.store(out + 6, -9223372036854775808)


def test_a_number_beyond_int64_beside_narrow_integers_is_unsigned():
    out, n = np.zeros(7, np.uint64), 2**64 - 1
    unsigned_numbers[1,](np.array([7.0], np.float32), np.array([7], np.uint16), out, n)
    assert out.tolist() == [1, n // 7, n, 1, n % 7, 1, 2**63]


@triton.jit
def truth_of_a_sum(x, out, n):
    tl.store(out, 3 if (tl.load(x) + n != 0.5) else 4)


def test_a_condition_of_a_loaded_integer_and_an_argument_steers():
    out = np.zeros(1, np.int32)
    truth_of_a_sum[1,](np.array([5], np.int16), out, 2**63)
    assert out[0] == 3


@triton.jit
def of_two_numbers(out, n, by):
    tl.store(out, tl.minimum(n, by))
    tl.store(out + 1, tl.maximum(n, by))
    tl.store(out + 2, tl.minimum(2, 2147483648))
    tl.static_assert(tl.minimum(2, 2147483648).dtype == tl.uint32)
    tl.store(out + 3, tl.fma(2, 2147483648, 1))
    tl.store(out + 4, 1 << n)


def test_functions_of_two_known_numbers_compute_in_the_common_type():
    """-7 in uint64 is 2^64 - 7. A shift by more bits than there are, which Triton leaves open, is one by 0."""
    out = np.zeros(5, np.uint64)
    of_two_numbers[1,](out, 2**63, -7)
    assert out.tolist() == [2**63, 2**64 - 7, 2, 1, 1]
