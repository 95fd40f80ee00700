"""Heads: the heads of an attention, and the numbers that it should give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from kb_messages import BenchmarkError, DType
from kb_models.layout import Value
from kb_models.layout.value import Array

_ROUNDOFF: Final = 2.0**-24
"""The unit roundoff of f32."""
Seen = Callable[[int, int], Array]
"""Takes a sequence and a key head, and returns the keys or the values of the sequence, a row each."""


class Heads(Struct, frozen=True, kw_only=True):
    """`heads` query heads of `head_dim` elements; each of `kv_heads` key heads serves as many of them as the others.

    Raises BenchmarkError for query heads that no key head serves.
    """

    heads: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            got = f"heads={self.heads} of kv_heads={self.kv_heads}"
            raise BenchmarkError("attention", got, "as many query heads for each key head")

    @property
    def group(self) -> int:
        """The query heads of each key head."""
        return self.heads // self.kv_heads

    def check(self, name: str, q: Value, k: Value, v: Value, sequences: int) -> None:
        """Raises BenchmarkError unless *q*, *k* and *v* of attention *name* have these heads, and as many rows for each
        of *sequences* sequences, and no part of them cuts a head."""
        rows, d = q.shape[0], self.head_dim
        expected = [(rows, count * d) for count in (self.heads, self.kv_heads, self.kv_heads)]
        if [value.shape for value in (q, k, v)] != expected:
            got = ", ".join(str(value.shape) for value in (q, k, v))
            raise BenchmarkError(f"attention {name}", got, f"queries, keys and values of {expected}")
        if rows % sequences:
            raise BenchmarkError(f"attention {name}", f"{rows} rows of {sequences} sequences", "as many rows for each")
        if any(end % d for value in (q, k, v) for part in value.parts for end in part.bounds[1]):
            needs = f"parts of whole heads, of {d} columns each"
            raise BenchmarkError(f"attention {name}", "a part that cuts a head", needs, "state the unit of the parts")

    @property
    def scale(self) -> float:
        """The factor of each score. Source: Vaswani et al., arXiv 1706.03762."""
        return float(self.head_dim**-0.5)

    def of_query(self, start: int, stop: int) -> tuple[int, int]:
        """The first key head, and the one behind the last, of query heads *start* to *stop* - 1."""
        return start // self.group, -(-stop // self.group)


def attention(q: Array, keys: Seen, values: Seen, heads: Heads, sequences: int, causal: bool) -> Array:
    """softmax(Q K^T / sqrt(d)) V in float64, of *q*, (rows, heads * d), with as many rows for each sequence.

    With *causal*, the last row of a sequence sees all keys, and each row before one key less.
    """
    return _by_head(q, keys, values, heads, sequences, causal)[0]


def attention_tolerance(
    q: Array, keys: Seen, values: Seen, heads: Heads, sequences: int, causal: bool, dtype: DType
) -> Array:
    """The rounding of the result and of the probabilities to *dtype*: relative errors, of a mean of sizes of values.

    A score in f32 has an error of sqrt(d) 2^-24 of the sizes that it sums, and a power of e the error of its exponent.
    A mean has twice the error of its weights.
    """
    info = dtype.info
    found, means, largest, n_keys = _by_head(q, keys, values, heads, sequences, causal)
    in_f32 = (np.sqrt(heads.head_dim) * largest + 2 * largest + np.sqrt(n_keys) + 8) * _ROUNDOFF
    allowed: Array = 2 * (in_f32 + info.unit_roundoff) * means
    return allowed + 2 * info.unit_roundoff * np.abs(found) + info.smallest_subnormal


def _by_head(
    q: Array, keys: Seen, values: Seen, heads: Heads, sequences: int, causal: bool
) -> tuple[Array, Array, Array, int]:
    """The attention; the same of the sizes of values; the largest sum of sizes behind a score, by column; and the keys
    of a sequence."""
    d, rows, n_keys = heads.head_dim, len(q) // sequences, 1
    found, means, largest = np.empty(q.shape), np.empty(q.shape), np.zeros(q.shape)
    step = max(1, (1 << 23) // (heads.group * max(1, len(keys(0, 0)))))  # scores of 64 MiB at a time
    for number in range(sequences * heads.kv_heads):
        sequence, head = divmod(number, heads.kv_heads)
        k, v = (each(sequence, head).astype(np.float64) for each in (keys, values))
        n_keys = len(k)
        cols = slice(head * heads.group * d, (head + 1) * heads.group * d)
        for first in range(sequence * rows, (sequence + 1) * rows, step):
            at = slice(first, min(first + step, (sequence + 1) * rows)), cols
            queries = q[at].astype(np.float64).reshape(-1, d)
            x = queries @ k.T * heads.scale
            if causal:
                seen = n_keys - (sequence + 1) * rows + np.arange(at[0].start, at[0].stop).repeat(heads.group)
                x[np.arange(n_keys) > seen[:, None]] = -np.inf
            powers = np.exp(x - x.max(axis=1, keepdims=True))
            powers /= powers.sum(axis=1, keepdims=True)
            shape = (at[0].stop - at[0].start, -1)
            found[at], means[at] = (powers @ v).reshape(shape), (powers @ np.abs(v)).reshape(shape)
            largest[at] = (np.abs(queries) @ np.abs(k).T).max() * heads.scale
    return found, means, largest, n_keys
