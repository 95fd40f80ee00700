"""Blocks: products, reductions, scans, shapes, orders, bits, functions, random numbers."""

import math

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def products_kernel(a_ptr, b_ptr, c_ptr, k, N: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, N)
    total = tl.zeros([N, N], tl.float32)
    for start in range(0, k, K):
        depth = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * k + depth[None, :], mask=depth[None, :] < k, other=0.0)
        b = tl.load(b_ptr + rows[:, None] * k + depth[None, :], mask=depth[None, :] < k, other=0.0)
        total = tl.dot(a, tl.trans(b), acc=total)
    tl.store(c_ptr + rows[:, None] * N + rows[None, :], total)


def show_dot(rng):
    """`tl.dot` with an accumulator and a transposed operand"""
    a, b = rng.standard_normal((2, 16, 40)).astype(np.float16)
    c = np.zeros((16, 16), np.float32)
    products_kernel[(1,)](a, b, c, 40, N=16, K=16)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-4, atol=1e-4)


@triton.jit
def permute_kernel(x_ptr, y_ptr, least_ptr, most_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    x = tl.load(x_ptr + (a * B + b) * C + c)
    flat = tl.reshape(tl.permute(x, (2, 0, 1)), (A * B * C,))
    tl.store(y_ptr + tl.arange(0, A * B * C), flat)
    rows = tl.reshape(x, (A * B, C))
    tl.store(least_ptr + tl.arange(0, A * B), tl.min(rows, axis=1))
    tl.store(most_ptr + tl.arange(0, C), tl.max(rows, axis=0))


def show_permute_max_min(rng):
    """`trans`, `permute`, `max`, `min`, blocks of three dimensions"""
    x = rng.standard_normal((2, 4, 8), np.float32)
    y, least, most = np.zeros((8, 2, 4), np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    permute_kernel[(1,)](x, y, least, most, A=2, B=4, C=8)
    np.testing.assert_array_equal(y, x.transpose(2, 0, 1))
    np.testing.assert_array_equal(least, x.reshape(8, 8).min(axis=1))
    np.testing.assert_array_equal(most, x.reshape(8, 8).max(axis=0))


@triton.jit
def bits_kernel(x_ptr, packed_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    bits = tl.load(x_ptr + at).to(tl.uint32, bitcast=True)
    nibble = (tl.load(packed_ptr + at // 2) >> ((at % 2) * 4).to(tl.uint8)) & 0xF
    tl.store(y_ptr + at, (bits >> 23 & 0xFF) ^ (nibble.to(tl.uint32) << 8) | 0x8000)


def show_bits(rng):
    """Shifts, `&`, `|`, `^`, bitcasts, unsigned integers"""
    x, packed = rng.standard_normal(16, np.float32), rng.integers(0, 256, 8).astype(np.uint8)
    y = np.zeros(16, np.uint32)
    bits_kernel[(1,)](x, packed, y, BLOCK=16)
    nibbles = np.stack([packed & 15, packed >> 4], axis=1).ravel().astype(np.uint32)
    np.testing.assert_array_equal(y, (x.view(np.uint32) >> 23 & 0xFF) ^ (nibbles << 8) | 0x8000)


@triton.jit
def scans_kernel(x_ptr, sum_ptr, product_ptr, back_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(sum_ptr + at, tl.cumsum(x, axis=0), mask=at < n)
    tl.store(product_ptr + at, tl.cumprod(x, axis=0), mask=at < n)
    square = tl.broadcast_to(tl.reshape(x, (1, BLOCK)), (2, BLOCK))
    back = tl.cumsum(square, axis=1, reverse=True)
    tl.store(back_ptr + tl.arange(0, 2)[:, None] * n + at[None, :], back, mask=at[None, :] < n)


def show_scans(rng):
    """`reshape`, `broadcast_to`, `cumsum` and `cumprod`, forwards and backwards"""
    x = rng.uniform(0.5, 1.5, 13).astype(np.float32)
    sums, products, back = np.zeros_like(x), np.zeros_like(x), np.zeros((2, 13), np.float32)
    scans_kernel[(1,)](x, sums, products, back, 13, BLOCK=16)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(sums, wide.cumsum(), rtol=1e-5)
    np.testing.assert_allclose(products, wide.cumprod(), rtol=1e-5)
    np.testing.assert_allclose(back, [wide[::-1].cumsum()[::-1]] * 2, rtol=1e-5)


@triton.jit
def pairs_kernel(x_ptr, y_ptr, PAIRS: tl.constexpr):
    at = tl.arange(0, 2 * PAIRS)
    even, odd = tl.split(tl.reshape(tl.load(x_ptr + at), (PAIRS, 2)))
    turned = tl.join(-odd, even)
    tl.store(y_ptr + at, tl.reshape(turned, (2 * PAIRS,)))
    tl.store(y_ptr + 2 * PAIRS + at, tl.interleave(odd, even))


def show_join_split(rng):
    """`join`, `split`, `interleave`"""
    x, y = rng.standard_normal(16, np.float32), np.zeros(32, np.float32)
    pairs_kernel[(1,)](x, y, PAIRS=8)
    even, odd = x[::2], x[1::2]
    np.testing.assert_array_equal(y[:16], np.stack([-odd, even], axis=1).ravel())
    np.testing.assert_array_equal(y[16:], np.stack([odd, even], axis=1).ravel())


@triton.jit
def functions_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = libdevice.tanh(x) + tl.erf(x) + libdevice.expm1(x) + libdevice.atan(x) + tl.math.exp2(x) + tl.sigmoid(x)
    y += libdevice.pow(tl.abs(x), 1.5) + libdevice.sinh(x) + tl.cos(x) + tl.rsqrt(tl.abs(x) + 1) + tl.floor(x)
    tl.store(y_ptr + at, y)


def show_functions(rng):
    """`tanh`, `erf` and other functions of `tl.math` and `libdevice`"""
    x, y = rng.standard_normal(16, np.float32), np.zeros(16, np.float32)
    functions_kernel[(1,)](x, y, BLOCK=16)
    z = x.astype(np.float64)
    expected = np.tanh(z) + [math.erf(each) for each in z] + np.expm1(z) + np.arctan(z) + np.exp2(z)
    expected += 1 / (1 + np.exp(-z)) + np.abs(z) ** 1.5 + np.sinh(z) + np.cos(z) + 1 / np.sqrt(np.abs(z) + 1)
    np.testing.assert_allclose(y, expected + np.floor(z), rtol=1e-5, atol=1e-5)


@triton.jit
def larger_of(value, index, other_value, other_index):
    is_first = (value > other_value) | ((value == other_value) & (index < other_index))
    return tl.where(is_first, value, other_value), tl.where(is_first, index, other_index)


@triton.jit
def decayed(x, weight, y, other_weight):
    return other_weight * x + y, weight * other_weight


@triton.jit
def combined_kernel(x_ptr, weight_ptr, most_ptr, where_ptr, scan_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, weight = tl.load(x_ptr + at), tl.load(weight_ptr + at)
    most, where = tl.reduce((x, at), 0, larger_of)
    tl.store(most_ptr, most)
    tl.store(where_ptr, where)
    state, _ = tl.associative_scan((x, weight), 0, decayed)
    tl.store(scan_ptr + at, state)


def show_reduce_with_a_function(rng):
    """`tl.reduce` and `tl.associative_scan` with functions of several values"""
    x, weight = rng.standard_normal(16, np.float32), rng.random(16, np.float32)
    most, where, scan = np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(16, np.float32)
    combined_kernel[(1,)](x, weight, most, where, scan, BLOCK=16)
    assert (most[0], where[0]) == (x.max(), x.argmax())
    state, expected = 0.0, []
    for each, factor in zip(x.astype(np.float64), weight.astype(np.float64), strict=True):
        state = factor * state + each
        expected.append(state)
    np.testing.assert_allclose(scan, expected, rtol=1e-5, atol=1e-5)


@triton.jit
def random_kernel(uniform_ptr, normal_ptr, integer_ptr, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(uniform_ptr + at, tl.rand(seed, at))
    tl.store(normal_ptr + at, tl.randn(seed, at))
    tl.store(integer_ptr + at, tl.randint(seed, at))


def first_philox(seed, counter):
    """The first word of Philox 4x32-10. Source: Salmon and others, Parallel Random Numbers, SC 2011."""
    words, key = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        one, two = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [two >> 32 ^ words[1] ^ key[0], two & 0xFFFFFFFF, one >> 32 ^ words[3] ^ key[1], one & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return words[0]


def show_random_numbers(rng):
    """Random numbers: `rand`, `randn`, `randint` by Philox"""
    uniform, normal, integer = np.zeros(512, np.float32), np.zeros(512, np.float32), np.zeros(512, np.int32)
    random_kernel[(4,)](uniform, normal, integer, 77, BLOCK=128)
    words = np.array([first_philox(77, counter) for counter in range(512)], np.uint32)
    np.testing.assert_array_equal(integer.view(np.uint32), words)
    signed = words.view(np.int32).astype(np.float64)
    np.testing.assert_allclose(uniform, np.where(signed < 0, -signed - 1, signed) / 2**31, rtol=1e-6)
    assert abs(normal.mean()) < 0.2  # 4.5 standard errors of 512 numbers
    assert 0.85 < normal.std() < 1.15


@triton.jit
def orders_kernel(x_ptr, sorted_ptr, most_ptr, least_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(sorted_ptr + at, tl.sort(x, descending=True))
    tl.store(most_ptr, tl.argmax(x, axis=0))
    tl.store(least_ptr, tl.argmin(x, axis=0))


def show_sort_and_argmax(rng):
    """`sort`, `argmax` and `argmin`: of equal elements the first"""
    x = rng.integers(0, 6, 16).astype(np.float32)
    ordered, most, least = np.zeros_like(x), np.zeros(1, np.int32), np.zeros(1, np.int32)
    orders_kernel[(1,)](x, ordered, most, least, BLOCK=16)
    np.testing.assert_array_equal(ordered, np.sort(x)[::-1])
    assert (most[0], least[0]) == (x.argmax(), x.argmin())


@triton.jit
def batched_kernel(a_ptr, b_ptr, c_ptr, B: tl.constexpr, N: tl.constexpr):
    batch, row, column = tl.arange(0, B)[:, None, None], tl.arange(0, N)[None, :, None], tl.arange(0, N)[None, None, :]
    at = (batch * N + row) * N + column
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def show_stacks_of_products(rng):
    """`tl.dot` of blocks of three dimensions"""
    a, b = rng.standard_normal((2, 2, 16, 16)).astype(np.float16)
    c = np.zeros((2, 16, 16), np.float32)
    batched_kernel[(1,)](a, b, c, B=2, N=16)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


@triton.jit
def scaled_kernel(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr):
    row, k, group = tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    a = tl.load(a_ptr + row[:, None] * (K // 2) + tl.arange(0, K // 2)[None, :])
    b = tl.load(b_ptr + k[:, None] * N + row[None, :])
    a_scale = tl.load(a_scale_ptr + row[:, None] * (K // 32) + group[None, :])
    b_scale = tl.load(b_scale_ptr + row[:, None] * (K // 32) + group[None, :])
    tl.store(c_ptr + row[:, None] * N + row[None, :], tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e4m3"))


def show_scaled_products(rng):
    """`tl.dot_scaled` of `e2m1`, `e4m3`, `e5m2`, `bf16` and `fp16`, with scales"""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = rng.integers(0, 256, (16, 32)).astype(np.uint8)
    pairs = np.stack([codes & 15, codes >> 4], axis=-1).reshape(16, 64)
    b = rng.integers(0, 120, (64, 16)).astype(np.uint8)  # e4m3: from 0 on, all below NaN
    scales = rng.integers(124, 130, (2, 16, 2)).astype(np.uint8)
    c = np.zeros((16, 16), np.float32)
    scaled_kernel[(1,)](codes, scales[0], b, scales[1], c, N=16, K=64)
    factors = np.repeat(2.0 ** (scales - 127.0), 32, axis=-1)
    exponent, fraction = b >> 3, b & 7
    y = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    x = np.where(pairs & 8, -1, 1) * numbers[pairs & 7]
    np.testing.assert_allclose(c, (x * factors[0]) @ (y * factors[1].T), rtol=1e-4, atol=1e-3)


def main():
    for name, show in list(globals().items()):
        if name.startswith("show_"):
            show(np.random.default_rng(0))


if __name__ == "__main__":
    main()
