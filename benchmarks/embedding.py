"""Embedding lookup: row ids[i] of a table for each token i, gathered by loaded indices, as in GPT-2.

GPT-2 small is `-p vocabulary=50257 -p width=768`. Source: the configuration of the model `gpt2` (vocab_size, n_embd).
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, table, ids, out, block: int) -> None:
    """Program p looks up *block* tokens. The last program may have fewer."""
    tokens = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    tl.store(out[tokens, :], tl.load(table[tl.load(ids[tokens])]))


def blocks(host: kb.Host, tokens: int, row_nbytes: int, block: int | None) -> dict[str, int]:
    """The tokens of a program, and the number of programs. TCM holds the numbers and rows of two programs."""
    found = host.fitted(lambda block: 2 * block * (row_nbytes + 4), block=(block, 32))
    return {**found, "grid": -(-tokens // found["block"])}


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * p.width * (p.vocabulary + p.tokens) + 4 * p.tokens)
def embedding(
    rng: np.random.Generator,
    tokens: Size = 512,
    vocabulary: Size = 4096,
    width: Size = 768,
    block: Size | None = None,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """The table has a row of `width` elements for each word. A program looks up `block` tokens, by default 32 or as
    many as fit the chip.
    """
    table = kb.cast(rng.standard_normal((vocabulary, width), np.float32), dtype)
    ids = rng.integers(vocabulary, size=tokens, dtype=np.int32)
    return kb.call(
        kernel,
        table,
        ids,
        kb.empty((tokens, width), dtype),
        chosen=lambda host: blocks(host, tokens, width * dtype.nbytes, block),
        reference=lambda table, ids: table[ids],
        tolerance=0.0,
    )
