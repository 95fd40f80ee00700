"""The steps around attention that models share: projections, the phase of attention, and the last norm."""

from __future__ import annotations

from collections.abc import Sequence

from kb_models.layout import Value
from kb_models.models.builder import Builder
from kb_models.models.params import ModelParams
from kb_models.models.rotation import Rotation
from kb_models.ops import Heads


def projected(m: Builder, x: Value, heads: Heads, p: ModelParams, *, bias: bool = False) -> tuple[Value, Value, Value]:
    """Queries, keys and values of the rows of *x*, in one launch; heads stay whole."""
    d = heads.head_dim
    outs = [("q", heads.heads * d, "heads", d), *((each, heads.kv_heads * d, "kv_heads", d) for each in "kv")]
    q, k, v = m.projections("qkv", x, outs, bias=bias, weights=p.weights)
    return q, k, v


def attend(
    m: Builder,
    qkv: tuple[Value, Value, Value],
    heads: Heads,
    p: ModelParams,
    *,
    rotation: Rotation | None = None,
    causal: bool = True,
) -> Value:
    """The attention of the phase of *p*: of the tokens of whole sequences, or of a new token to a cache."""
    if p.phase == "decode":
        return m.decode_attention("attention", qkv, heads, p.context, rotation=rotation, page=p.paged)
    y = m.prefill_attention("attention", qkv, heads, p.batch, causal=causal, rotation=rotation)
    if causal:  # a model that goes on to decode keeps the keys and values of all blocks
        m.keep(*m.ops[-1].reads[1:3])
    return y


def last_norm(
    m: Builder, name: str, terms: Sequence[Value], epsilon: float, p: ModelParams, *, is_centred: bool = False
) -> Value:
    """The norm of the sum of *terms*, of the last token of each sequence, which alone chooses the next one."""
    if p.rows > p.batch:
        terms = [m.rows("last", terms, p.rows // p.batch)]
    return m.norm_of_sum(name, terms, epsilon, is_centred=is_centred)
