"""Layer norm: each row of X less its mean, over its standard deviation, times gamma, plus beta, as in GPT-2.

GPT-2 small is `-p rows=1024 -p width=768`, GPT-2 XL `-p width=1600`. Source: the configurations of the models `gpt2`
and `gpt2-xl` (n_ctx 1024, n_embd, layer_norm_epsilon 1e-5).
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, gamma, beta, y, block: int, epsilon: float) -> None:
    """Program p normalizes *block* rows of X, in f32. The last program may have fewer."""
    rows = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    width = x.shape[1]
    wide = tl.load(x[rows, :]).to("f32")
    centred = wide - tl.sum(wide, axis=1) / width
    variance = tl.sum(centred * centred, axis=1) / width
    scaled = centred * tl.rsqrt(variance + epsilon) * tl.load(gamma).to("f32")
    tl.store(y[rows, :], (scaled + tl.load(beta).to("f32")).to(y.dtype))


def reference(x, gamma, beta, epsilon: float) -> np.ndarray:
    """The definition, in float64. Source: Ba et al., "Layer Normalization", arXiv 1607.06450."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon) * gamma + beta


def blocks(host: kb.Host, x: np.ndarray, block: int | None) -> dict[str, int]:
    """The rows of a program, and the number of programs. TCM holds rows as they are and twice in f32, and weights."""
    rows, width = x.shape
    fitted = host.fitted(lambda block: width * (block * (x.dtype.itemsize + 8) + 16) + 64 * block, block=(block, 16))
    return {**fitted, "grid": -(-rows // fitted["block"])}


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * p.width * (2 * p.rows + 2))
def layer_norm(
    rng: np.random.Generator,
    rows: Size = 256,
    width: Size = 768,
    block: Size | None = None,
    epsilon: float = 1e-5,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """X has `rows` rows of `width` elements, with a mean of 1. A program takes `block` rows, by default 16 or as
    many as fit TCM.
    """
    x = kb.cast(1 + rng.standard_normal((rows, width), np.float32), dtype)
    gamma, beta = (kb.cast(rng.standard_normal(width, np.float32), dtype) for _ in range(2))
    return kb.call(
        kernel,
        x,
        gamma,
        beta,
        kb.empty(x.shape, dtype),
        epsilon=epsilon,
        chosen=lambda host: blocks(host, x, block),
        reference=lambda x, gamma, beta: reference(x, gamma, beta, epsilon),
        flops=8 * rows * width,
    )
