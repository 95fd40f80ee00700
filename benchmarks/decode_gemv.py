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


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * (p.N * p.K + p.K + p.N))
def decode_gemv(
    rng: np.random.Generator,
    N: Size = 1024,
    K: Size = 1024,
    block_n: Size = 128,
    block_k: Size = 512,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """Sizes are in elements. A program computes `block_n` elements of y, in steps of `block_k`."""
    w = kb.cast(K**-0.5 * rng.standard_normal((N, K), np.float32), dtype)
    x = kb.cast(rng.standard_normal((1, K), np.float32), dtype)
    return kb.call(
        kernel,
        w,
        x,
        kb.empty((1, N), dtype),
        block_n,
        block_k,
        grid=-(-N // block_n),
        reference=lambda w, x: x @ w.T,
        flops=2 * N * K,
    )
