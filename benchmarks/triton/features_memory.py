"""Memory: pointers, masks, gathers, atomics, descriptors, block pointers, locks, addresses."""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

import kb_triton


@triton.jit
def scaled_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.store(y_ptr + at, (x.to(tl.float32) * factor + 1).to(tl.float16), mask=at < n)


def show_pointers_in_one_dimension(rng):
    """Blocks of pointers in one dimension, masks, casts, elementwise math, loops with bounds known at run time"""
    x, y = rng.standard_normal(101).astype(np.float16), np.zeros(101, np.float16)
    scaled_kernel[(1,)](x, y, 101, 1.5, BLOCK=32)
    np.testing.assert_array_equal(y, (x.astype(np.float32) * np.float32(1.5) + 1).astype(np.float16))


@triton.jit
def row_sums_kernel(x_ptr, sum_ptr, rows, columns, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    bands = tl.cdiv(columns, COLUMNS)
    band, part = tl.program_id(0) // bands, tl.program_id(0) % bands
    row = band * ROWS + tl.arange(0, ROWS)[:, None]
    column = part * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + row * width + column, mask=(row < rows) & (column < columns), other=0.0)
    first = tl.load(x_ptr)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(tl.sum(x, axis=1), axis=0) + first)


def show_pointers_in_two_dimensions(rng):
    """Blocks of pointers in two dimensions, scalar pointers, `//` and `%` of integers, sums"""
    x, sums = rng.standard_normal((5, 9), np.float32), np.zeros(6, np.float32)
    row_sums_kernel[(6,)](x, sums, 5, 7, 9, ROWS=2, COLUMNS=4)
    wide = x[:, :7].astype(np.float64)
    parts = [wide[row : row + 2, column : column + 4].sum() for row in (0, 2, 4) for column in (0, 4)]
    np.testing.assert_allclose(sums, np.array(parts) + wide[0, 0], rtol=1e-5, atol=1e-5)


@triton.jit
def wrapping_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at % n))


def show_wrapping_addresses(rng):
    """Addresses that wrap around the end of an array"""
    x, y = rng.standard_normal(11, np.float32), np.zeros(32, np.float32)
    wrapping_kernel[(2,)](x, y, 11, BLOCK=16)
    np.testing.assert_array_equal(y, x[np.arange(32) % 11])


@triton.jit
def permuting_kernel(x_ptr, from_ptr, to_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    source = tl.load(from_ptr + at, mask=at < n, other=0)
    target = tl.load(to_ptr + at, mask=at < n, other=0)
    x = tl.load(x_ptr + source, mask=(at < n) & (source >= 0), other=-1.0)
    tl.store(y_ptr + target, x * 2, mask=at < n)


def show_gathers_and_scatters(rng):
    """Gathers and scatters at loaded indices"""
    x, y = rng.standard_normal(40, np.float32), np.zeros(13, np.float32)
    source, target = rng.integers(-4, 40, 13), rng.permutation(13)
    permuting_kernel[(1,)](x, source, target, y, 13, BLOCK=16)
    expected = np.zeros(13, np.float32)
    expected[target] = 2 * np.where(source >= 0, x[source], -1)
    np.testing.assert_array_equal(y, expected)


@triton.jit
def column_sums_kernel(x_ptr, bin_ptr, sum_ptr, count_ptr, most_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here = tl.program_id(0) * columns + at
    x = tl.load(x_ptr + here, mask=at < columns)
    tl.atomic_add(sum_ptr + at, x, mask=at < columns, sem="relaxed")
    number = tl.load(bin_ptr + here, mask=at < columns, other=0)
    tl.atomic_add(count_ptr + number, 1, mask=at < columns)
    tl.atomic_max(most_ptr, tl.program_id(0))


def show_atomics_of_blocks(rng):
    """`atomic_add` of blocks under masks, and at loaded indices that may be equal; `atomic_max`"""
    x, bins = rng.standard_normal((17, 21), np.float32), rng.integers(0, 5, (17, 21)).astype(np.int32)
    sums, counts, most = np.zeros(21, np.float32), np.zeros(5, np.int32), np.zeros(1, np.int32)
    column_sums_kernel[(17,)](x, bins, sums, counts, most, 21, BLOCK=32)
    np.testing.assert_allclose(sums, x.sum(axis=0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(counts, np.bincount(bins.ravel(), minlength=5))
    assert most[0] == 16


@triton.jit
def descriptor_kernel(x_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    sizes: tl.constexpr = [ROWS, COLUMNS]
    x = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=sizes)
    y = tl.make_tensor_descriptor(y_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=sizes)
    here = [tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS]
    y.store(here, x.load(here) + 1)


def show_tensor_descriptors(rng):
    """Tensor descriptors"""
    x = rng.standard_normal((10, 12), np.float32)
    y = np.zeros_like(x)
    descriptor_kernel[(2, 2)](x, y, 10, 12, ROWS=8, COLUMNS=8)
    np.testing.assert_array_equal(y, x + 1)


@triton.jit
def float8_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x.to(tl.float8e4nv), mask=at < n)


def show_fp8(rng):
    """Elements of 8-bit floats"""
    x, y = rng.standard_normal(13, np.float32), np.zeros(13, ml_dtypes.float8_e4m3fn)
    float8_kernel[(1,)](x, y, 13, BLOCK=16)
    np.testing.assert_array_equal(y.view(np.uint8), x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


@triton.jit
def transposing_kernel(x_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    y = tl.make_block_ptr(y_ptr, (columns, rows), (rows, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    for _ in range(0, columns, BLOCK):
        tl.store(y, tl.trans(tl.load(x, boundary_check=(0, 1), padding_option="zero")), boundary_check=(0, 1))
        x = tl.advance(x, (0, BLOCK))
        y = tl.advance(y, (BLOCK, 0))


def show_block_pointers(rng):
    """Block pointers that advance, with bounds"""
    x = rng.standard_normal((6, 21), np.float32)
    y = np.zeros((21, 6), np.float32)
    transposing_kernel[(1,)](x, y, 6, 21, BLOCK=8)
    np.testing.assert_array_equal(y, x.T)


@triton.jit
def locked_kernel(x_ptr, sum_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr, tl.load(sum_ptr) + part)
    tl.atomic_xchg(lock_ptr, 0)


def show_locks(rng):
    """Spin locks by `atomic_cas` and `atomic_xchg`"""
    x, total, lock = rng.standard_normal(100, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    locked_kernel[(7,)](x, total, lock, 100, BLOCK=16)
    np.testing.assert_allclose(total[0], x.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)
    assert lock[0] == 0


@triton.jit
def addresses_kernel(address_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x_ptr = tl.load(address_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + tl.program_id(0) * n + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def show_pointer_casts(rng):
    """Addresses that are loaded from an array, and cast to pointers"""
    one, two = rng.standard_normal((2, 10), np.float32).copy()
    y = np.zeros((2, 10), np.float32)
    addresses = np.array([kb_triton.address(each) for each in (one, two)], np.int64)
    addresses_kernel[(2,)](addresses, y, 10, BLOCK=16)
    np.testing.assert_array_equal(y, [one, two])


@triton.jit
def joined_kernel(x_ptr, y_ptr, z_ptr, n_x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointers = tl.where(at < n_x, x_ptr + at, y_ptr + at - n_x)
    tl.store(z_ptr + at, tl.load(pointers, mask=at < n), mask=at < n)


def show_pointers_into_two_arrays(rng):
    """`tl.where` of pointers into two arrays"""
    x, y = rng.standard_normal(21, np.float32), rng.standard_normal(16, np.float32)
    z = np.zeros(37, np.float32)
    joined_kernel[(3,)](x, y, z, 21, 37, BLOCK=16)
    np.testing.assert_array_equal(z, [*x, *y])


@triton.jit
def passed_on_kernel(x_ptr, ready_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(y_ptr + at, tl.load(x_ptr + at) * 2)
        tl.atomic_store(ready_ptr, 1)
    else:
        tl.atomic_poll(ready_ptr, 1)
        tl.store(y_ptr + BLOCK + at, tl.atomic_load(y_ptr + at) * 2)


def show_polls(rng):
    """`atomic_store`, `atomic_load` and `atomic_poll` between programs that run at once"""
    x, y, ready = rng.standard_normal(16, np.float32), np.zeros((2, 16), np.float32), np.zeros(1, np.int32)
    passed_on_kernel[(2,)](x, ready, y, BLOCK=16)
    np.testing.assert_array_equal(y, [2 * x, 4 * x])


def main():
    for name, show in list(globals().items()):
        if name.startswith("show_"):
            show(np.random.default_rng(0))


if __name__ == "__main__":
    main()
