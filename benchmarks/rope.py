"""Rotary position embedding: turns pairs of elements of every head by an angle that grows with the position.

Llama-3-8B is `-p positions=2048 -p heads=32 -p head_dim=128`. Source: the configuration of `Meta-Llama-3-8B`
(num_attention_heads 32, head_dim 128, rope_theta 500000); pairs as its Hugging Face model has them.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, cos, sin, y, heads: int, block: int) -> None:
    """Program p turns all heads of *block* positions. The last program may have fewer positions."""
    rows = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    half = cos.shape[1]
    c, s = tl.load(cos[rows, :]), tl.load(sin[rows, :])
    for head in range(heads):
        first = slice(2 * head * half, (2 * head + 1) * half)
        second = slice((2 * head + 1) * half, (2 * head + 2) * half)
        a, b = tl.load(x[rows, first]).to("f32"), tl.load(x[rows, second]).to("f32")
        tl.store(y[rows, first], (a * c - b * s).to(y.dtype))
        tl.store(y[rows, second], (b * c + a * s).to(y.dtype))


def reference(x, angles: np.ndarray) -> np.ndarray:
    """The rotation by *angles* of each position, in float64. Source: Su et al., "RoFormer", arXiv 2104.09864."""
    positions, half = angles.shape
    a, b = np.moveaxis(x.reshape(positions, -1, 2, half), 2, 0)
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.stack([a * c - b * s, b * c + a * s], axis=2).reshape(x.shape)


def blocks(host: kb.Host, shape: tuple[int, ...], nbytes: int, block: int | None) -> dict[str, int]:
    """The positions of a program, and the number of programs. TCM holds rows of both tables, and half rows of two
    heads: as they are, in f32, and their results.
    """
    positions, half = shape
    found = host.fitted(lambda block: block * half * (2 * 4 + 2 * (2 * nbytes + 2 * 4 + 4)), block=(block, 32))
    return {**found, "grid": -(-positions // found["block"])}


@kb.benchmark(footprint=lambda p: p.positions * p.head_dim * (2 * p.heads * p.dtype.nbytes + 4))
def rope(
    rng: np.random.Generator,
    positions: Size = 256,
    heads: Size = 8,
    head_dim: Annotated[int, Meta(ge=2, multiple_of=2)] = 128,
    block: Size | None = None,
    theta: float = 500_000.0,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """X has a row for each position: `heads` heads of `head_dim` elements. Cosines and sines are tables of f32.

    A program takes `block` positions, by default 32 or as many as fit the chip.
    """
    x = kb.cast(rng.standard_normal((positions, heads * head_dim), np.float32), dtype)
    frequencies = theta ** (-np.arange(0, head_dim, 2) / head_dim)
    angles = np.arange(positions)[:, None] * frequencies
    cos, sin = (np.float32(each) for each in (np.cos(angles), np.sin(angles)))
    return kb.call(
        kernel,
        x,
        cos,
        sin,
        kb.empty(x.shape, dtype),
        heads,
        chosen=lambda host: blocks(host, cos.shape, dtype.nbytes, block),
        reference=lambda x, cos, sin: reference(x, angles),
        flops=3 * x.size,
    )
