"""Types of results by Triton's table, integers that wrap, bits and casts."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl


@triton.jit
def types_kernel(x, y, o1, o2, o3, o4, n, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < n
    a = tl.load(x + i, mask=m)
    b = tl.load(y + i, mask=m)
    tl.static_assert((a * 2.0).dtype == tl.float16)
    tl.static_assert((a + b).dtype == tl.float16)
    tl.static_assert((b / 2).dtype == tl.float32)
    tl.static_assert((b // 2).dtype == tl.int32)
    tl.static_assert((a > b).dtype == tl.int1)
    tl.store(o1 + i, a * 0.1, mask=m)
    tl.store(o2 + i, b // 3, mask=m)
    tl.store(o3 + i, b % 3, mask=m)
    tl.store(o4 + i, a / b, mask=m)


def test_results_have_the_types_of_tritons_table():
    rng = np.random.default_rng(0)
    n = 20
    x = rng.standard_normal(n).astype(np.float16)
    y = rng.integers(-10, 10, n).astype(np.int32)
    y[y == 0] = 7
    o1 = np.zeros(n, np.float16)
    o2 = np.zeros(n, np.int32)
    o3 = np.zeros(n, np.int32)
    o4 = np.zeros(n, np.float32)
    types_kernel[1,](x, y, o1, o2, o3, o4, n, B=32)
    np.testing.assert_array_equal(o1, (x.astype(np.float32) * np.float16(0.1).astype(np.float32)).astype(np.float16))
    np.testing.assert_array_equal(o2, np.trunc(y / 3).astype(np.int32))
    np.testing.assert_array_equal(o3, np.fmod(y, 3))
    np.testing.assert_allclose(o4, x.astype(np.float32) / y, rtol=0.001)


@triton.jit
def bytes_kernel(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=255)
    tl.store(o + i, (v + 1) * 2, mask=i < n)


@triton.jit
def hash_kernel(o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = (i + n) * 65599 + 2147483600
    v = (v ^ v >> 13) * -5
    tl.store(o + i, v)


@triton.jit
def four_bits_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    q = tl.load(x + i // 8)
    s = i % 8 * 4
    v = q >> s & 15
    tl.store(o + i, (v.to(tl.float32) - 8) * 0.5)


@triton.jit
def pointer_cast_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    p = x.to(tl.pointer_type(tl.int32))
    tl.store(o + i, tl.load(p + i) & 2147483647)


@triton.jit
def bits_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i) * 1.0
    u = v.to(tl.uint32, bitcast=True)
    tl.store(o + i, u >> 16)


@triton.jit
def radix_sort_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    k = v.to(tl.uint32, bitcast=True)
    k = k ^ tl.where(k >> 31 != 0, 4294967295, 2147483648).to(tl.uint32)
    s = tl.sort(k)
    s = s ^ tl.where(s >> 31 != 0, 2147483648, 4294967295).to(tl.uint32)
    tl.store(o + i, s.to(tl.float32, bitcast=True))


@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def boolean_kernel(x, o, B: tl.constexpr, FLAG: tl.constexpr, OPT: tl.constexpr = None):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if FLAG and OPT is None:
        v = -v
    c = (v > 0) | (v < -1)
    tl.store(o + i, c)
    tl.device_print("hi", tl.program_id(0))


@triton.jit
def constants_kernel(x, o, a: tl.constexpr, b: "tl.constexpr", DT: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i).to(DT)
    C: tl.constexpr = a * b
    v = v * C
    if tl.float16 == DT:
        v = v + 1
    elif tl.float32 == DT:
        v = v + 2
    tl.store(o + i, v)


@triton.jit
def normalized_kernel(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    y = v
    y = tl.where(v > 0, y, tl.exp(y) - 1)
    y = y.to(tl.float32) if True else y
    a, b = (tl.sum(y), tl.min(y, axis=0))
    z = (y - b) / (a - b + 1e-05)
    tl.store(o + i, z.to(o.dtype.element_ty))


@triton.jit
def mixed_signs_kernel(x, y, below, larger, smaller, shifted, chosen, B: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(below + at, a < b)
    tl.store(larger + at, tl.maximum(a, b))
    tl.store(smaller + at, tl.minimum(a, b))
    tl.store(shifted + at, a >> (b & 7))
    tl.store(chosen + at, tl.where(a >= b, a, b))


def test_integers_of_mixed_signs_are_compared_as_unsigned_and_shifted_by_the_sign_of_the_first():
    rng = np.random.default_rng(0)
    for signed, unsigned in ((np.int8, np.uint16), (np.int32, np.uint32)):
        x = rng.integers(-20, 20, 16).astype(signed)
        y = rng.integers(0, 20, 16).astype(unsigned)
        below, results = np.zeros(16, bool), np.zeros((4, 16), unsigned)
        mixed_signs_kernel[1,](x, y, below, *results, B=16)
        a = x.astype(unsigned)
        np.testing.assert_array_equal(below, a < y)
        shifted = x.astype(np.int64) >> (y & unsigned(7)).astype(np.int64)
        expected = np.maximum(a, y), np.minimum(a, y), shifted.astype(unsigned), np.where(a >= y, a, y)
        np.testing.assert_array_equal(results, expected)


@triton.jit
def loop_number_kernel(x, o, N: tl.constexpr, B: tl.constexpr):
    """Stores the sum before each turn of a loop. The first of these sums is a number of Python."""
    sum_before = 0.0
    for at in range(tl.cdiv(N, B)):
        tl.store(o + at, sum_before.to(tl.float32))
        sum_before += tl.sum(tl.load(x + at * B + tl.arange(0, B)))
    tl.store(o + tl.cdiv(N, B).to(tl.int64), sum_before.to(sum_before.dtype))


def test_numbers_of_python_have_a_type():
    o = np.zeros(4, np.float32)
    loop_number_kernel[1,](np.arange(24, dtype=np.float32), o, N=24, B=8)
    np.testing.assert_array_equal(o, [0, 28, 120, 276])


def drawn(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)


def hashed(n):
    """The integers of `hash_kernel`, by numpy's integers of 32 bits, which wrap."""
    with np.errstate(all="ignore"):
        found = (np.arange(16, dtype=np.int32) + np.int32(n)) * np.int32(65599) + np.int32(2147483600)
        return (found ^ found >> np.int32(13)) * np.int32(-5)


def normalized(x):
    y = np.where(x > 0, x, np.exp(x) - 1)
    return (y - y.min()) / (y.sum() - y.min())


X, HALVES, DOUBLES = drawn(16), drawn(16, dtype=np.float16), drawn(10).astype(np.float64)
BYTES = np.array([0, 127, 200, 255], np.uint8)
WORDS = np.random.default_rng(0).integers(-(2**31), 2**31, 4).astype(np.int32)
FOURS = np.array([(int(WORDS[at // 8]) >> 4 * (at % 8) & 15) - 8 for at in range(32)], np.float32) * np.float32(0.5)
CASES = {
    "unsigned bytes wrap": (
        bytes_kernel, (1,), (BYTES,), (4,), {"B": 4}, ((BYTES.astype(int) + 1) % 256 * 2 % 256).astype(np.uint8),
    ),
    "integers of 32 bits wrap": (hash_kernel, (1,), (), (1000000,), {"B": 16}, hashed(1000000)),
    "integers of 4 bits": (four_bits_kernel, (1,), (WORDS,), (), {"B": 32}, FOURS),
    "a pointer to another type": (pointer_cast_kernel, (1,), (X,), (), {"B": 16}, X.view(np.int32) & 0x7FFFFFFF),
    "bits of floats": (bits_kernel, (1,), (X,), (), {"B": 16}, X.view(np.uint32) >> 16),
    "floats sorted by their bits": (radix_sort_kernel, (1,), (X,), (), {"B": 16}, np.sort(X)),
    "a copy of float64": (copy_kernel, (1,), (DOUBLES,), (10,), {"B": 16}, DOUBLES),
    "booleans": (boolean_kernel, (1,), (X,), (), {"B": 16, "FLAG": True}, (-X > 0) | (-X < -1)),
    "constants": (constants_kernel, (1,), (X[:8],), (2, 3, tl.float32, 8), {}, X[:8] * 6 + 2, 1e-6),
    "casts of halves": (
        normalized_kernel, (1,), (HALVES,), (), {"B": 16}, normalized(HALVES.astype(float)).astype(np.float16),
        0.03, 2e-3,
    ),
}  # fmt: skip


@pytest.mark.usefixtures("lenient")  # a case takes the exponential of f16
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_have_tritons_types(case, check):
    check(*case)


@triton.jit
def compare_shapes(out, N: tl.constexpr):
    x = tl.zeros((N, 4), tl.float32)
    shape = x.shape
    tl.store(out, x.shape == [N, 4])
    tl.store(out + 1, shape == (N, 4))
    sizes = [N, 4]
    tl.store(out + 2, sizes == shape)
    tl.store(out + 3, x.shape != [N, 8])
    tl.store(out + 4, x.shape[1:] == [4])
    tl.store(out + 5, x.type.shape == [N, 4])
    tl.store(out + 6, tl.arange(0, N).shape == [N] and x.shape[0].value == N)
    tl.store(out + 7, x.shape == [4, N])
    more = [2]
    tl.static_assert(x.shape + more == (N, 4, 2))
    tl.static_assert(more + x.shape == (2, N, 4))
    tl.store(out + 8, tl.reshape(x, x.shape[::-1]).shape == [4, N])


def test_a_shape_equals_the_list_and_the_tuple_of_its_sizes():
    out = np.full(9, 5, np.int32)
    compare_shapes[1,](out, N=32)
    assert out.tolist() == [1, 1, 1, 1, 1, 1, 1, 0, 1]
    assert {tl.block_type(tl.float32, [2, 4]).shape: 1}[2, 4] == 1
