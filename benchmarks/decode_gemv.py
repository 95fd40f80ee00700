"""Matrix times vector: y[N] = W[N, K] @ x[K], the step of decoding one token, which reads each weight once.

Llama-3-8B is `-p N=4096 -p K=4096` (output projection) and `-p N=14336 -p K=4096` (MLP). Source: the configuration of
`Meta-Llama-3-8B` (hidden_size 4096, intermediate_size 14336).
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, w, x, y, block_n: int, block_k: int) -> None:
    """Program p computes *block_n* elements of y. It loads the next block of its rows of W while it works on one."""
    rows = slice(tl.program_id() * block_n, (tl.program_id() + 1) * block_n)
    steps = (slice(k, k + block_k) for k in range(0, w.shape[1], block_k))
    acc = 0
    for a, b in tl.ahead((tl.load_async(x[:, step]), tl.load_async(w[rows, step])) for step in steps):
        acc = tl.dot(a, b.T, acc)
    tl.store(y[:, rows], acc.to(y.dtype))


def blocks(host: kb.Host, n: int, nbytes: int, block_n: int | None, block_k: int | None) -> dict[str, int]:
    """The elements of a program, its step, and the number of programs. TCM holds three steps of x and of the rows of W,
    and the sums.
    """
    found = host.fitted(
        lambda block_n, block_k: 3 * (block_n + 1) * block_k * nbytes + 12 * block_n,
        block_n=(block_n, 128),
        block_k=(block_k, 512),
    )
    return {**found, "grid": -(-n // found["block_n"])}


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * (p.N * p.K + p.K + p.N))
def decode_gemv(
    rng: np.random.Generator,
    N: Size = 1024,
    K: Size = 1024,
    block_n: Size | None = None,
    block_k: Size | None = None,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """Sizes are in elements. A program computes `block_n` elements of y, in steps of `block_k`, by default 128 and
    512, or as much as fits the chip.
    """
    w = kb.cast(K**-0.5 * rng.standard_normal((N, K), np.float32), dtype)
    x = kb.cast(rng.standard_normal((1, K), np.float32), dtype)
    return kb.call(
        kernel,
        w,
        x,
        kb.empty((1, N), dtype),
        chosen=lambda host: blocks(host, N, dtype.nbytes, block_n, block_k),
        reference=lambda w, x: x @ w.T,
        flops=2 * N * K,
    )
