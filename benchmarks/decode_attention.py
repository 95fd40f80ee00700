"""Decode attention: one new token for each sequence, whose keys are split over PEs that merge their parts by messages.

Llama-3-8B is `-p batch=8 -p context=4096 -p heads=32 -p kv_heads=8 -p head_dim=128`. Sources: the configuration of
`Meta-Llama-3-8B` (num_attention_heads, num_key_value_heads, head_dim); Dao et al., "Flash-Decoding for long-context
inference", 2023, for keys that are split.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb
from kb_messages import BenchmarkError

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, q, k, v, out, splits: int, block: int) -> None:
    """PE p works on part p % *splits* of the keys, for every so many pairs of a sequence and a key head."""
    part, lanes = tl.program_id() % splits, tl.num_programs() // splits
    kv_heads, context, d = k.shape[1:]
    group = q.shape[1] // kv_heads
    keys = slice(part * context // splits, (part + 1) * context // splits)
    for pair in range(tl.program_id() // splits, q.shape[0] * kv_heads, lanes):
        sequence, head = pair // kv_heads, pair % kv_heads
        heads = slice(head * group, (head + 1) * group)
        steps = [slice(at, min(at + block, keys.stop)) for at in range(keys.start, keys.stop, block)]
        loads = ((tl.load_async(k[sequence, head, s, :]), tl.load_async(v[sequence, head, s, :])) for s in steps)
        found = merged(tl, attended(tl, tl.load(q[sequence, heads, :]) * d**-0.5, loads), part, splits)
        if found is not None:
            tl.store(out[sequence, heads, :], (found[2] / found[1]).to(out.dtype))


def attended(tl, queries, loads):
    """The largest products of *queries* with the keys of *loads*, the sums of powers, and the sums of values."""
    largest, total, acc = float("-inf"), 0.0, 0.0
    for keys, values in tl.ahead(loads):
        x = tl.dot(queries.to(keys.dtype), keys.T)
        higher = tl.maximum(largest, tl.max(x, axis=1))
        powers, decay = tl.exp(x - higher), tl.exp(largest - higher)
        total = total * decay + tl.sum(powers, axis=1)
        acc, largest = acc * decay + tl.dot(powers.to(values.dtype), values), higher
    return largest, total, acc


def merged(tl, found, part: int, splits: int):
    """What `attended` would find for all parts of the keys, for part 0, and None for the others.

    The parts are merged in a tree: a part sends what it has to the part that is a power of 2 before it.
    """
    names, step = ("largest", "powers", "values"), 1
    while step < splits:
        if part % (2 * step):
            for value, name in zip(found, names, strict=True):
                tl.send(value, tl.program_id() - step, name)
            return None
        if part + step < splits:
            other = [tl.recv(tl.program_id() + step, name) for name in names]
            higher = tl.maximum(found[0], other[0])
            mine, theirs = (tl.exp(each[0] - higher) for each in (found, other))
            found = higher, *(a * mine + b * theirs for a, b in zip(found[1:], other[1:], strict=True))
        step *= 2
    return found


def shares(host: kb.Host, pairs: int, context: int, splits: int | None) -> dict[str, object]:
    """The parts of the keys, and the PEs: as many parts as keep all PEs at work, at most one for each key."""
    if splits is not None and splits > min(host.num_pes, context):
        most = min(host.num_pes, context)
        raise BenchmarkError("decode_attention", f"splits={splits}", f"at most {most}, a PE and a key for each part")
    parts = splits if splits is not None else max(1, min(host.num_pes // min(pairs, host.num_pes), context))
    lanes = max(1, min(pairs, host.num_pes // parts))
    host.chose(splits=parts, pes=lanes * parts)
    return {"splits": parts, "pes": list(range(lanes * parts))}


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(Q K^T / sqrt(d)) V for one query of each head, in float64."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each, group, axis=1) for each in (k, v))
    x = np.einsum("bhd,bhtd->bht", q, k) * q.shape[-1] ** -0.5
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.einsum("bht,bhtd->bhd", powers / powers.sum(axis=-1, keepdims=True), v)


@kb.benchmark(
    footprint=lambda p: p.dtype.nbytes * p.batch * p.head_dim * 2 * (p.kv_heads * p.context + p.heads),
)
def decode_attention(
    rng: np.random.Generator,
    batch: Size = 1,
    context: Size = 512,
    heads: Size = 8,
    kv_heads: Size = 2,
    head_dim: Size = 64,
    splits: Size | None = None,
    block: Size = 128,
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """Each key head serves `heads / kv_heads` query heads. The `context` keys of a sequence are cut into `splits`
    parts, by default so many that all PEs work. A step takes `block` keys.
    """
    if heads % kv_heads:
        needs = "as many query heads for each key head"
        raise BenchmarkError("decode_attention", f"heads={heads} of kv_heads={kv_heads}", needs)
    q = kb.cast(rng.standard_normal((batch, heads, head_dim), np.float32), dtype)
    k, v = (kb.cast(rng.standard_normal((batch, kv_heads, context, head_dim), np.float32), dtype) for _ in range(2))
    return kb.call(
        kernel,
        q,
        k,
        v,
        kb.empty((batch, heads, head_dim), dtype),
        block=block,
        chosen=lambda host: shares(host, batch * kv_heads, context, splits),
        reference=attention,
        flops=4 * batch * heads * context * head_dim,
    )
