"""Llama and the models that share its blocks: RMS norm, grouped attention with rotary positions, gated MLP."""

from __future__ import annotations

from kb_models.layout import Value
from kb_models.models.builder import Builder
from kb_models.models.config import Config


def block(m: Builder, config: Config, x: Value) -> Value:
    """One block: the residual stream *x* of rows x hidden, after the block."""
    h = m.rms_norm("norm1", x, config.norm_epsilon)
    up = m.linear("up", h, config.mlp, "mlp")
    return m.linear("down", up, config.hidden, "hidden")
