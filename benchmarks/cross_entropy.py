"""Cross entropy: for each token, the logarithm of the sum of powers of its logits, less the logit of the right word.

GPT-2 is `-p tokens=1024 -p vocabulary=50257`, Llama-3 `-p vocabulary=128256`. Source: the configurations of the models
`gpt2` and `Meta-Llama-3-8B` (vocab_size).
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, logits, targets, loss, block: int, words: int) -> None:
    """Program p has *block* tokens and goes through the vocabulary in steps of *words*.

    Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867.
    """
    tokens = slice(tl.program_id() * block, min((tl.program_id() + 1) * block, loss.shape[0]))
    largest, total = float("-inf"), 0.0
    steps = (slice(start, start + words) for start in range(0, logits.shape[1], words))
    for part in tl.ahead(tl.load_async(logits[tokens, step]) for step in steps):
        x = part.to("f32")
        higher = tl.maximum(largest, tl.max(x, axis=1))
        total = total * tl.exp(largest - higher) + tl.sum(tl.exp(x - higher), axis=1)
        largest = higher
    rows = tl.arange(tokens.start, tokens.stop)[:, None]
    right = tl.load(logits[rows, tl.load(targets[tokens, :])]).to("f32")
    tl.store(loss[tokens, :], tl.log(total) + (largest - right))


def reference(logits, targets) -> np.ndarray:
    """The definition, in float64."""
    shifted = logits - np.take_along_axis(logits, targets, axis=1)
    largest = shifted.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted - largest).sum(axis=1, keepdims=True)) + largest


def tolerance(logits, targets) -> np.ndarray:
    """Rounding in f32 of each power, of their sum, of its logarithm, and of the differences of logits."""
    spread = logits.max(axis=1, keepdims=True) - logits.min(axis=1, keepdims=True)
    return (np.sqrt(logits.shape[1]) + 4 * spread + 32) * 2.0**-24


def blocks(host: kb.Host, tokens: int, nbytes: int, block: int | None, words: int | None) -> dict[str, int]:
    """The tokens and logits of a program, and the number of programs. TCM holds six steps of logits, and the logits and
    powers of three steps in f32. Fewer tokens come before fewer logits: steps stay long, and more PEs have work.
    """

    def values(block: int, words: int) -> int:
        return block * (words * (6 * nbytes + 24) + 64)

    most = 2048 if words is None else words
    fewer = host.fitted(values, block=(block, 8), words=(most, most))
    found = host.fitted(values, block=(fewer["block"], 8), words=(words, most))
    return {**found, "grid": -(-tokens // found["block"])}


@kb.benchmark(footprint=lambda p: p.tokens * (p.dtype.nbytes * p.vocabulary + 8))
def cross_entropy(
    rng: np.random.Generator,
    tokens: Size = 128,
    vocabulary: Size = 8192,
    block: Size | None = None,
    words: Size | None = None,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """Each token has `vocabulary` logits. A program takes `block` tokens, and `words` logits of each at a time,
    by default 8 and 2048, or as many as fit the chip.
    """
    logits = kb.cast(2 * rng.standard_normal((tokens, vocabulary), np.float32), dtype)
    targets = rng.integers(vocabulary, size=(tokens, 1), dtype=np.int32)
    return kb.call(
        kernel,
        logits,
        targets,
        kb.empty((tokens, 1), "f32"),
        chosen=lambda host: blocks(host, tokens, dtype.nbytes, block, words),
        reference=reference,
        tolerance=tolerance,
        flops=4 * tokens * vocabulary,
    )
