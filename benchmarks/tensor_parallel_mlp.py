"""Tensor-parallel MLP: down(silu(gate(x)) * up(x)) of a few tokens, the hidden columns cut over PEs, in one launch.

Each PE has some rows of all three weights, which lie with one row for each hidden column, and the partial results are
added up by a reduce-scatter of messages. Llama-3-8B is `-p tokens=8 -p width=4096 -p hidden=14336`. Sources: the
configuration of `Meta-Llama-3-8B` (hidden_size, intermediate_size); Shoeybi et al., "Megatron-LM", arXiv 1909.08053,
for the cut.
"""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

import kernbench as kb
from kb_engine.collectives import Group, reduce_scatter

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, w1, w3, w2, y, group: Group, block_n: int, block_k: int, algorithm: str) -> None:
    """PE p computes part p of the hidden columns, and what they add to each block of columns of the result.

    The PEs add up a block by a reduce-scatter: each rounds and stores its part of the sums. *y* has the result
    transposed, one column after the other, so that a part of the sums is a part of *y*.
    """
    here, pes, tokens, (hidden, width) = tl.program_id(), tl.num_programs(), x.shape[0], w1.shape
    mine = steps(here * hidden // pes, (here + 1) * hidden // pes, block_n)
    held = [gated(tl, x, w1, w3, cols, block_k) for cols in mine]
    for cols in steps(0, width, block_n):
        total = 0
        for h, w in zip(held, tl.ahead(tl.load_async(w2[rows, cols]) for rows in mine), strict=True):
            total = tl.dot(w.T, h.T, total)
        sums = reduce_scatter(tl, group, total, algorithm=algorithm)
        if sums is not None:
            first = cols.start * tokens + here * -(-(cols.stop - cols.start) * tokens // pes)
            tl.store(y[first : first + sums.shape[0]], sums.to(y.dtype))


def gated(tl, x, w1, w3, cols: slice, block_k: int):
    """Columns *cols* of silu(x W1^T) * (x W3^T)."""
    gate, up = 0, 0
    parts = ((x[:, k], w1[cols, k], w3[cols, k]) for k in steps(0, x.shape[1], block_k))
    for a, b, c in tl.ahead([tl.load_async(each) for each in part] for part in parts):
        gate, up = tl.dot(a, b.T, gate), tl.dot(a, c.T, up)
    return (gate * tl.sigmoid(gate) * up).to(x.dtype)


def steps(start: int, stop: int, size: int) -> list[slice]:
    """The numbers from *start* to *stop* in steps of *size*."""
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


def blocks(
    host: kb.Host, shape: tuple[int, int], nbytes: int, pes: int | None, block_n: int | None, block_k: int | None
) -> dict[str, Any]:
    """The PEs, at most one for each hidden column, the columns of a block, and the depth of a step, for a *shape* of
    tokens and hidden columns.

    TCM holds the hidden columns of a PE, three steps of x and of two weights, and four sums of a block in f32.
    """
    tokens, hidden = shape
    used = min(hidden, host.num_pes if pes is None else pes)
    mine = -(-hidden // used)
    found = host.fitted(
        lambda block_n, block_k: (
            nbytes * (tokens * mine + 3 * (tokens + 2 * block_n) * block_k) + 16 * tokens * block_n
        ),
        lambda block_n, block_k: 8 * tokens * block_n,
        block_n=(block_n, 256),
        block_k=(block_k, 256),
    )
    host.chose(parts=used)
    return {**found, "group": host.group(range(used)), "pes": list(range(used))}


def mlp(x: np.ndarray, w1: np.ndarray, w3: np.ndarray, w2: np.ndarray) -> np.ndarray:
    """The result in float64, one column after the other."""
    x, w1, w3, w2 = (each.astype(np.float64) for each in (x, w1, w3, w2))
    gate = x @ w1.T
    return ((gate / (1 + np.exp(-gate)) * (x @ w3.T)) @ w2).T.reshape(-1)


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * p.width * (3 * p.hidden + 2 * p.tokens))
def tensor_parallel_mlp(
    rng: np.random.Generator,
    tokens: Size = 8,
    width: Size = 256,
    hidden: Size = 512,
    pes: Size | None = None,
    block_n: Size | None = None,
    block_k: Size | None = None,
    algorithm: str = "auto",
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """`tokens` tokens go from `width` to `hidden` elements and back, on `pes` PEs, by default on all.

    A step computes `block_n` columns, in steps of `block_k`, by default 256 and 256, or as many as fit the chip.
    `algorithm` is that of the reduce-scatter.
    """
    x = kb.cast(rng.standard_normal((tokens, width), np.float32), dtype)
    w1, w3 = (kb.cast(width**-0.5 * rng.standard_normal((hidden, width), np.float32), dtype) for _ in range(2))
    w2 = kb.cast(hidden**-0.5 * rng.standard_normal((hidden, width), np.float32), dtype)
    return kb.call(
        kernel,
        x,
        w1,
        w3,
        w2,
        kb.empty((tokens * width,), dtype),
        algorithm=algorithm,
        chosen=lambda host: blocks(host, (tokens, hidden), dtype.nbytes, pes, block_n, block_k),
        reference=mlp,
        flops=6 * tokens * width * hidden,
    )
