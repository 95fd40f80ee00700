"""RMS norm: each row of X over the root of its mean square, times a weight for each column, as in Llama.

Llama-3-8B is `-p rows=2048 -p width=4096`, Llama-3-70B `-p width=8192`. Source: the configurations of
`Meta-Llama-3-8B` and `Meta-Llama-3-70B` (hidden_size, rms_norm_eps 1e-5).
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, weight, y, block: int, epsilon: float) -> None:
    """Program p normalizes *block* rows of X, in f32. The last program may have fewer."""
    rows = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    wide = tl.load(x[rows, :]).to("f32")
    square = tl.sum(wide * wide, axis=1) / x.shape[1]
    normal = wide * tl.rsqrt(square + epsilon)
    tl.store(y[rows, :], (normal * tl.load(weight).to("f32")).to(y.dtype))


def reference(x, weight, epsilon: float) -> np.ndarray:
    """The definition, in float64. Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", arXiv 1910.07467."""
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + epsilon) * weight


def blocks(host: kb.Host, x: np.ndarray, block: int | None) -> dict[str, int]:
    """The rows of a program, and the number of programs. TCM holds rows as they are and twice in f32, and weights."""
    rows, width = x.shape
    fitted = host.fitted(lambda block: width * (block * (x.dtype.itemsize + 8) + 8) + 64 * block, block=(block, 8))
    return {**fitted, "grid": -(-rows // fitted["block"])}


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * p.width * (2 * p.rows + 1))
def rms_norm(
    rng: np.random.Generator,
    rows: Size = 256,
    width: Size = 1024,
    block: Size | None = None,
    epsilon: float = 1e-5,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """X has `rows` rows of `width` elements. A program takes `block` rows, by default 8 or as many as fit TCM."""
    x = kb.cast(rng.standard_normal((rows, width), np.float32), dtype)
    weight = kb.cast(rng.standard_normal(width, np.float32), dtype)
    return kb.call(
        kernel,
        x,
        weight,
        kb.empty(x.shape, dtype),
        epsilon=epsilon,
        chosen=lambda host: blocks(host, x, block),
        reference=lambda x, weight: reference(x, weight, epsilon),
        flops=5 * rows * width,
    )
