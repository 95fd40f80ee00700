"""The name of an op in error texts."""

from __future__ import annotations


def op_name(op_id: int, *texts: str) -> str:
    """The id of the op, and in brackets its *texts* (name, component, kernel line) that are not empty."""
    told = ", ".join(filter(None, texts))
    return f"op {op_id} ({told})" if told else f"op {op_id}"
