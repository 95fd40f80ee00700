"""C = activation(A @ B): tiles of C in bands of some rows of tiles, so that programs at one time share tiles of B."""

import numpy as np
import triton
import triton.language as tl
from numbers_of import asked_types, assert_near, exact, normal


@triton.jit
def leaky(x):
    return tl.where(x > 0, x, x * 0.125)


@triton.jit
def tile_of(number, tiles_m, tiles_n, TOGETHER: tl.constexpr):
    """The row and the column of a tile: bands of TOGETHER rows of tiles, down the columns of each band."""
    band = number // (tiles_n * TOGETHER)
    height = tl.minimum(tiles_m - band * TOGETHER, TOGETHER)
    within = number - band * tiles_n * TOGETHER
    return band * TOGETHER + within % height, within // height


@triton.jit
def gemm_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_m,
    a_k,
    b_k,
    b_n,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    TOGETHER: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N), TOGETHER)
    rows = (tile_m * M + tl.arange(0, M))[:, None]
    columns = (tile_n * N + tl.arange(0, N))[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        across = start + tl.arange(0, K)[None, :]
        down = start + tl.arange(0, K)[:, None]
        a = tl.load(a_ptr + rows * a_m + across * a_k, mask=(rows < m) & (across < k), other=0.0)
        b = tl.load(b_ptr + down * b_k + columns * b_n, mask=(down < k) & (columns < n), other=0.0)
        total = tl.dot(a, b, total)
    if ACTIVATION == "leaky":
        total = leaky(total)
    tl.store(c_ptr + rows * n + columns, total.to(c_ptr.dtype.element_ty), mask=(rows < m) & (columns < n))


def gemm(a, b, activation="", tile=(32, 32, 16), together=2):
    """The product of *a* and *b*, which may be transposed views."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), a.dtype)
    strides = [each // a.itemsize for each in (*a.strides, *b.strides)]
    sizes = dict(zip("MNK", tile, strict=True))
    gemm_kernel[lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)](
        a, b, c, m, n, k, *strides, **sizes, TOGETHER=together, ACTIVATION=activation
    )
    return c


def main():
    rng = np.random.default_rng(0)
    for name in asked_types():
        for m, n, k in ((1, 1, 1), (64, 32, 48), (100, 75, 50)):
            a, b = normal(rng, (m, k), name), normal(rng, (k, n), name)
            wide_a, wide_b = exact(a, b)
            product = wide_a @ wide_b
            assert_near(gemm(a, b), product, name)
            transposed = np.ascontiguousarray(b.T).T
            assert_near(gemm(a, transposed, "leaky"), np.where(product > 0, product, product / 8), name)


if __name__ == "__main__":
    main()
