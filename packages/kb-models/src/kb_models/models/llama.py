"""Llama and the models that share its blocks: RMS norm, grouped attention with rotary positions, gated MLP or experts.

Source of the sizes and the order of ops: Touvron et al., arXiv 2302.13971; Jiang et al., arXiv 2401.04088 (Mixtral);
Qwen Team, arXiv 2412.15115.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kb_models.layout import Value
from kb_models.models.architecture import Architecture
from kb_models.models.attention import attend, last_norm, projected
from kb_models.models.builder import Builder
from kb_models.models.config import ConfigKeys
from kb_models.models.params import ModelParams, Weights
from kb_models.models.rotation import Rotation
from kb_models.ops import Heads


class Llama(Architecture):
    """Llama 1 to 3."""

    splits_tokens = True

    qkv_bias = False
    """Whether q, k and v have a bias in every configuration."""

    def __init__(self, keys: ConfigKeys) -> None:
        self.hidden = keys.size("hidden_size")
        self.layers = keys.size("num_hidden_layers")
        self.heads = keys.size("num_attention_heads")
        self.kv_heads = keys.size("num_key_value_heads", self.heads)
        self.head_dim = keys.size("head_dim", self.hidden // self.heads)
        if self.heads % self.kv_heads:
            got = f"{self.kv_heads}, with num_attention_heads {self.heads}"
            raise keys.error("num_key_value_heads", got, f"a divisor of {self.heads}")
        if keys.get("head_dim") is None:
            keys.divides("num_attention_heads", "hidden_size")
        self.attention = Heads(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim)
        self.mlp = keys.size("intermediate_size")
        self.vocab = keys.size("vocab_size")
        self.epsilon = keys.number("rms_norm_eps", 1e-6)
        self.rotation = Rotation.read(keys)
        self.is_tied = keys.flag("tie_word_embeddings", False)
        self.has_o_bias = keys.flag("attention_bias", False)
        self.has_bias = self.has_o_bias or self.qkv_bias
        self.experts, self.top_k = 1, 1
        keys.get("max_position_embeddings")  # rotary positions go on
        keys.only("hidden_act", ["silu"], "the gate of the MLP is SiLU")
        keys.only("mlp_bias", [False], "no bundled model has a bias there")
        if self.head_dim % 2:
            raise keys.error("head_dim", str(self.head_dim), "an even number, because rotary positions turn pairs")

    @property
    def parameters(self) -> int:
        """Two tables of words, or one; blocks of attention, MLP and two norms; the last norm."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * q + 2 * kv) + (q + 2 * kv) * self.has_bias + self.hidden * self.has_o_bias
        mlp = 3 * self.hidden * self.mlp * self.experts + (self.hidden * self.experts if self.experts > 1 else 0)
        words = self.vocab * self.hidden * (1 if self.is_tied else 2)
        return words + self.layers * (attention + mlp + 2 * self.hidden) + self.hidden

    @property
    def axes(self) -> Mapping[str, int]:
        """Heads, key heads, MLP, experts, words and the residual stream."""
        experts = {"experts": self.experts} if self.experts > 1 else {}
        sizes = {"heads": self.heads, "kv_heads": self.kv_heads, "mlp": self.mlp, **experts}
        return {**sizes, "vocab": self.vocab, "hidden": self.hidden}

    def build(self, m: Builder, p: ModelParams) -> None:
        """Words, the blocks, the last norm, and the word that comes next."""
        m.named("embedding")
        stream = m.embedding("words", p.rows, self.vocab, self.hidden)
        added = m.zeros("nothing", stream)
        for number, repeats in self.simulated(p):
            m.named(f"block{number}", repeats)
            stream, added = self._block(m, stream, added, p)
        m.named("head")
        m.head("words", last_norm(m, "norm", (stream, added), self.epsilon, p), self.vocab)

    def _block(self, m: Builder, stream: Value, added: Value, p: ModelParams) -> tuple[Value, Value]:
        """One block: the residual stream and what comes on top of it, before the block and after it."""
        stream, x = m.add_norm("norm1", stream, added, self.epsilon)
        qkv = projected(m, x, self.attention, p, bias=self.has_bias)
        x = attend(m, qkv, self.attention, p, rotation=self.rotation)
        added = m.linear("o", x, self.hidden, "hidden", bias=self.has_o_bias, weights=p.weights)
        stream, x = m.add_norm("norm2", stream, added, self.epsilon)
        return stream, self._mlp(m, x, p)

    def _mlp(self, m: Builder, x: Value, p: ModelParams) -> Value:
        """The second half of a block, which comes on top of the residual stream."""
        x = m.gated("gate_up", x, self.mlp, "mlp", weights=p.weights)
        return m.linear("down", x, self.hidden, "hidden", weights=p.weights)


class Mistral(Llama):
    """Mistral 7B: Llama without a window of keys."""

    def __init__(self, keys: ConfigKeys) -> None:
        super().__init__(keys)
        keys.only("sliding_window", [], "attention to a window of keys is not built")


class Qwen2(Llama):
    """Qwen 2 and 2.5: Llama with a bias on q, k and v."""

    qkv_bias = True

    def __init__(self, keys: ConfigKeys) -> None:
        super().__init__(keys)
        keys.only("use_sliding_window", [False], "attention to a window of keys is not built")
        keys.only("use_mrope", [False], "positions of pictures are not built")
        for of_the_window in ("sliding_window", "max_window_layers"):
            keys.get(of_the_window)


class Mixtral(Mistral):
    """Mixtral: Llama with experts in place of the MLP."""

    forms: ClassVar[tuple[Weights, ...]] = ("same",)

    def __init__(self, keys: ConfigKeys) -> None:
        super().__init__(keys)
        self.experts = keys.size("num_local_experts")
        self.top_k = keys.size("num_experts_per_tok")
        if self.top_k > self.experts:
            got = f"{self.top_k}, with num_local_experts {self.experts}"
            raise keys.error("num_experts_per_tok", got, f"at most {self.experts}")

    def _mlp(self, m: Builder, x: Value, p: ModelParams) -> Value:
        return m.experts("experts", x, self.experts, self.top_k, self.mlp)
