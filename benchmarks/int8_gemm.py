"""Quantized GEMM: Y = (X @ W) * row scales * column scales of i8 operands with i32 sums, as in W8A8 inference.

Llama-3-8B is `-p M=512 -p N=4096 -p K=4096` (output projection) and `-p N=14336` (MLP). Source: the configuration of
`Meta-Llama-3-8B` (hidden_size, intermediate_size). Each token and each column has a scale, as in Dettmers et al.,
"LLM.int8()", arXiv 2208.07339.
"""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, w, row_scales, column_scales, y, block_m: int, block_n: int, block_k: int) -> None:
    """Program (j, i) computes block (i, j) of Y. The sums of integers are exact; only the scaling rounds."""
    rows = slice(tl.program_id(1) * block_m, (tl.program_id(1) + 1) * block_m)
    cols = slice(tl.program_id(0) * block_n, (tl.program_id(0) + 1) * block_n)
    steps = (slice(k, k + block_k) for k in range(0, x.shape[1], block_k))
    acc = 0
    for a, b in tl.ahead((tl.load_async(x[rows, step]), tl.load_async(w[step, cols])) for step in steps):
        acc = tl.dot(a, b, acc)
    scaled = acc.to("f32") * tl.load(row_scales[rows, :]) * tl.load(column_scales[cols])
    tl.store(y[rows, cols], scaled.to(y.dtype))


def quantized(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """*x* as i8 and the scales along *axis*, in f32: the largest element of a row or column becomes 127."""
    scales = np.abs(x).max(axis=axis, keepdims=True) / np.float32(127)
    return np.rint(x / scales).astype(np.int8), scales


def reference(x, w, row_scales, column_scales) -> np.ndarray:
    """The product of the integers, exactly, and the scales in float64."""
    return (x.astype(np.float64) @ w.astype(np.float64)) * row_scales * column_scales


def blocks(host: kb.Host, shape: tuple[int, int], given: tuple[int | None, ...]) -> dict[str, Any]:
    """The block of a program, its step, and the grid. TCM holds three steps of X and W, and the sums and a result of 4
    bytes each; the register file holds the sums.
    """
    found = host.fitted(
        lambda block_m, block_n, block_k: 3 * (block_m + block_n) * block_k + 8 * (block_m + 1) * (block_n + 1),
        lambda block_m, block_n, block_k: 4 * block_m * block_n,
        **dict(zip(("block_m", "block_n", "block_k"), zip(given, (256, 256, 256), strict=True), strict=True)),
    )
    return {**found, "grid": (-(-shape[1] // found["block_n"]), -(-shape[0] // found["block_m"]))}


@kb.benchmark(footprint=lambda p: p.M * p.K + p.K * p.N + 4 * (p.M + p.N) + p.out_dtype.nbytes * p.M * p.N)
def int8_gemm(
    rng: np.random.Generator,
    M: Size = 256,
    N: Size = 512,
    K: Size = 512,
    block_m: Size | None = None,
    block_n: Size | None = None,
    block_k: Size | None = None,
    out_dtype: kb.DType = kb.DType.BF16,
) -> kb.Call:
    """Sizes are in elements. A program computes `block_m` x `block_n` of Y, in steps of `block_k`, by default
    256 x 256 and 256, or as much as fits the chip.
    """
    x, row_scales = quantized(rng.standard_normal((M, K), np.float32), axis=1)
    w, column_scales = quantized(K**-0.5 * rng.standard_normal((K, N), np.float32), axis=0)
    expected = reference(x, w, row_scales.astype(float), column_scales.astype(float))
    info = out_dtype.info
    return kb.call(
        kernel,
        x,
        w,
        row_scales,
        column_scales[0],
        kb.empty((M, N), out_dtype),
        chosen=lambda host: blocks(host, (M, N), (block_m, block_n, block_k)),
        reference=expected,
        tolerance=(info.unit_roundoff + 3 * 2.0**-24) * np.abs(expected) + info.smallest_subnormal,
        flops=2 * M * N * K,
    )
