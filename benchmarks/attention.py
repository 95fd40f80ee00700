"""Attention of many heads: softmax(Q K^T / sqrt(d)) V, causal or not, in one kernel (flash) or in three, as in Llama-3.

Llama-3-8B is `-p tokens=2048 -p heads=32 -p kv_heads=8 -p head_dim=128`. Source: the configuration of `Meta-Llama-3-8B`
(num_attention_heads, num_key_value_heads, head_dim).
"""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Tensor, cast

Size = Annotated[int, Meta(ge=1)]


def flash(tl, q, k, v, out, d: int, group: int, block: int, block_k: int, causal: bool) -> None:
    """Program (i, h) computes *block* rows of head h. Rows keep the largest product and the sum of powers so far.

    Source: Dao et al., "FlashAttention", arXiv 2205.14135, with the division at the end of arXiv 2307.08691.
    """
    rows, head, shared = span(tl.program_id(0), block), tl.program_id(1), span(tl.program_id(1) // group, d)
    queries = tl.load(q[rows, span(head, d)])
    end = min(rows.stop, k.shape[0]) if causal else k.shape[0]
    parts = (span(number, block_k) for number in range(-(-end // block_k)))
    loads = ((keys, tl.load_async(k[keys, shared]), tl.load_async(v[keys, shared])) for keys in parts)
    largest, total, acc = float("-inf"), 0.0, 0.0
    for keys, a, b in tl.ahead(loads):
        x = tl.dot(queries, a.T)
        x = visible(tl, x, rows, keys) if causal and keys.stop > rows.start + 1 else x
        higher = tl.maximum(largest, tl.max(x, axis=1))
        powers, decay = tl.exp(tl.fma(x, d**-0.5, higher * -(d**-0.5))), tl.exp((largest - higher) * d**-0.5)
        total = total * decay + tl.sum(powers, axis=1)
        acc, largest = acc * decay + tl.dot(powers.to(b.dtype), b), higher
    tl.store(out[rows, span(head, d)], (acc / total).to(out.dtype))


def scores(tl, q, k, s, d: int, group: int, block: int, causal: bool) -> None:
    """Program (j, i, h) computes block (i, j) of the scores of head h."""
    keys, rows, head = span(tl.program_id(0), block), span(tl.program_id(1), block), tl.program_id(2)
    x = tl.dot(tl.load(q[rows, span(head, d)]), tl.load(k[keys, span(head // group, d)]).T) * d**-0.5
    x = visible(tl, x, rows, keys) if causal else x
    tl.store(s[head, rows, keys], x.to(s.dtype))


def softmax(tl, s, p, block: int) -> None:
    """Program (i, h) computes *block* rows of the probabilities of head h."""
    rows, head = span(tl.program_id(0), block), tl.program_id(1)
    x = tl.load(s[head, rows, :]).to("f32")
    powers = tl.exp(x - tl.max(x, axis=1))
    tl.store(p[head, rows, :], (powers / tl.sum(powers, axis=1)).to(p.dtype))


def product(tl, p, v, out, d: int, group: int, block: int) -> None:
    """Program (i, h) multiplies *block* rows of the probabilities of head h by its values."""
    rows, head = span(tl.program_id(0), block), tl.program_id(1)
    shared = span(head // group, d)
    parts = (span(number, block) for number in range(-(-v.shape[0] // block)))
    acc = 0
    for a, b in tl.ahead((tl.load_async(p[head, rows, keys]), tl.load_async(v[keys, shared])) for keys in parts):
        acc = tl.dot(a, b, acc)
    tl.store(out[rows, span(head, d)], acc.to(out.dtype))


def visible(tl, x, rows: slice, keys: slice):
    """The scores *x*, and minus infinity for keys that come after the query of the row."""
    row, key = (tl.arange(part.start, part.start + n) for part, n in zip((rows, keys), x.shape, strict=True))
    return tl.where(row[:, None] >= key, x, float("-inf"))


def span(number: int, size: int) -> slice:
    """Block *number* of blocks of *size*."""
    return slice(number * size, (number + 1) * size)


class AttentionParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each key and value head serves `heads / kv_heads` query heads.

    With `kernels=three`, scores and probabilities go through memory, in `dtype`, as in a model without a fused kernel.
    A program of the flash kernel has `block` rows and takes `block_k` keys at a time. Of the three, the first computes
    `block` x `block` scores, and the one that divides takes `rows` rows. By default these are 128, 256 and 16, or as
    many as fit the chip.
    """

    tokens: Size = 256
    heads: Size = 8
    kv_heads: Size = 2
    head_dim: Size = 64
    causal: bool = True
    kernels: Literal["flash", "three"] = "flash"
    block: Size | None = None
    block_k: Size | None = None
    rows: Size | None = None
    dtype: DType = DType.F16

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} has to be a multiple of kv_heads={self.kv_heads}")
        if not self.dtype.is_float:
            raise ValueError(f"{self.dtype.value} holds no shares of 1: dtype has to be a float")

    @property
    def group(self) -> int:
        """Query heads for each key and value head."""
        return self.heads // self.kv_heads


class Attention(Benchmark[AttentionParams]):
    """Q, K, V and the result have a row for each token, with all heads side by side, as projections make them."""

    Params = AttentionParams
    name = "attention"

    def inputs(self, p: AttentionParams, rng: np.random.Generator) -> Arrays:
        """Standard normal numbers, in the operands' dtype."""
        widths = {"q": p.heads, "k": p.kv_heads, "v": p.kv_heads}
        shapes = {name: (p.tokens, number * p.head_dim) for name, number in widths.items()}
        return {name: cast(rng.standard_normal(shape, np.float32), p.dtype) for name, shape in shapes.items()}

    def launch(self, host: Host, p: AttentionParams, tensors: Arrays) -> dict[str, Tensor]:
        """A program for each block of rows of each head; in the first of three kernels, for each block of scores."""
        q, k, v = (
            host.tensor(name, tensors[name], p.dtype, host.spread(tensors[name].shape, p.dtype)) for name in "qkv"
        )
        out = host.empty("out", q.shape, p.dtype, host.spread(q.shape, p.dtype))
        if p.kernels == "flash":
            block, block_k = flash_blocks(host, p)
            grid = (-(-p.tokens // block), p.heads)
            host.launch(flash, q, k, v, out, p.head_dim, p.group, block, block_k, p.causal, grid=grid)
            return {"out": out}
        block, rows = blocks_of_three(host, p)
        blocks, row_blocks = -(-p.tokens // block), -(-p.tokens // rows)
        square = (p.heads, p.tokens, p.tokens)
        s, probabilities = (host.empty(name, square, p.dtype, host.spread(square, p.dtype)) for name in "sp")
        host.launch(scores, q, k, s, p.head_dim, p.group, block, p.causal, grid=(blocks, blocks, p.heads))
        host.launch(softmax, s, probabilities, rows, grid=(row_blocks, p.heads))
        host.launch(product, probabilities, v, out, p.head_dim, p.group, block, grid=(blocks, p.heads))
        return {"out": out}

    def reference(self, p: AttentionParams, inputs: Arrays) -> Arrays:
        """The definition, in float64."""
        out = [self._probabilities(p, inputs, head)[0] @ self._head(p, inputs, "v", head) for head in range(p.heads)]
        return {"out": np.hstack(out)}

    def flops(self, p: AttentionParams) -> int:
        """The two products, over the scores that count."""
        pairs = p.tokens * (p.tokens + 1) // 2 if p.causal else p.tokens**2
        return 4 * p.heads * p.head_dim * pairs

    def footprint(self, p: AttentionParams) -> int:
        """Q, K, V and the result, and with three kernels the scores and the probabilities."""
        elements = 2 * p.tokens * (p.heads + p.kv_heads) * p.head_dim
        return p.dtype.nbytes * (elements + 2 * (p.kernels == "three") * p.heads * p.tokens**2)

    def tolerance(self, p: AttentionParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """Rounding of the result, and of the probabilities: relative errors, of a mean of the sizes of values.

        A score in f32 has an error of sqrt(d) 2^-24 of the sizes that it sums, and a power of e the error of its
        exponent. The powers are rounded to `dtype`, and with three kernels the scores are, too. A mean has twice the
        error of its weights.
        """
        info, out = p.dtype.info, []
        for head in range(p.heads):
            weights, largest = self._probabilities(p, inputs, head)
            in_f32 = (np.sqrt(p.head_dim) * largest + 2 * largest + np.sqrt(p.tokens) + 8) * 2.0**-24
            stored = 1 + (largest if p.kernels == "three" else 0)
            means = weights @ np.abs(self._head(p, inputs, "v", head))
            out.append(2 * (in_f32 + stored * info.unit_roundoff) * means)
        return {"out": np.hstack(out) + 2 * info.unit_roundoff * np.abs(expected["out"]) + info.smallest_subnormal}

    def _head(self, p: AttentionParams, inputs: Arrays, name: str, head: int) -> np.ndarray:
        """The part of an input that query head *head* uses, in float64."""
        number = head if name == "q" else head // p.group
        return inputs[name][:, span(number, p.head_dim)].astype(np.float64)

    def _probabilities(self, p: AttentionParams, inputs: Arrays, head: int) -> tuple[np.ndarray, float]:
        """The probabilities of *head*, and the largest sum of the sizes behind a score."""
        q, k = (self._head(p, inputs, name, head) * p.head_dim**-0.25 for name in "qk")
        x = q @ k.T
        if p.causal:
            x[np.triu_indices(p.tokens, 1)] = -np.inf
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True), float((np.abs(q) @ np.abs(k).T).max())


def flash_blocks(host: Host, p: AttentionParams) -> tuple[int, int]:
    """The rows and the keys of the flash kernel. TCM holds the queries, four steps of keys and values, the scores of
    two steps in f32, powers, and three results so far in f32; the register file holds the sums of either product.
    """
    d, nbytes = p.head_dim, p.dtype.nbytes
    found = host.fitted(
        lambda block, block_k: (
            nbytes * (block * d + 8 * block_k * d + block * block_k) + 4 * block * (2 * block_k + 3 * d + 8)
        ),
        lambda block, block_k: 4 * block * max(block_k, d),
        block=(p.block, 128),
        block_k=(p.block_k, 256),
    )
    return found["block"], found["block_k"]


def blocks_of_three(host: Host, p: AttentionParams) -> tuple[int, int]:
    """The side of a block of scores, and the rows that the softmax takes. TCM holds queries and keys and a block of
    scores in f32 and as they are, or three steps of probabilities and values and the result in f32; rows of scores as
    they are and twice in f32.
    """
    d, nbytes = p.head_dim, p.dtype.nbytes
    found = host.fitted(
        lambda block: block * max((2 * d + block) * nbytes + 8 * block, 3 * (block + d) * nbytes + 8 * d),
        lambda block: 4 * block * max(block, d),
        block=(p.block, 128),
    )
    rows = host.fitted(lambda rows: rows * (p.tokens * (nbytes + 8) + 64), rows=(p.rows, 16))
    return found["block"], rows["rows"]
