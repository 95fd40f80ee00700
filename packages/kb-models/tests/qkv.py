"""Queries, keys and values as projections leave them, for tests of attention."""

from __future__ import annotations

from kb_models.layout import Value
from kb_models.models.builder import Builder
from kb_models.ops import Heads, normal


def projected(m: Builder, rows: int, heads: Heads, row_axis: str = "batch") -> tuple[Value, Value, Value]:
    """Random queries, keys and values of *rows* rows, with whole heads in each cube."""
    found = []
    for name, count, axis in (("q", heads.heads, "heads"), *((each, heads.kv_heads, "kv_heads") for each in "kv")):
        shape, axes = (rows, count * heads.head_dim), (row_axis, axis)
        parts = m.mesh.parts(shape, axes, (1, heads.head_dim))
        content = normal(shape, 1.0, m.dtype)
        found.append(
            Value(name=name, shape=shape, dtype=m.dtype, parts=parts, axes=axes, content=content, role="activation")
        )
    return found[0], found[1], found[2]
