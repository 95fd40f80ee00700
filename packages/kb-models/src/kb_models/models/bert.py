"""BERT: attention to all tokens, a layer norm after each half of a block, and a pooler of each first token.

Source of the sizes and the order of ops: Devlin et al., arXiv 1810.04805.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kb_models.layout import Value
from kb_models.models.architecture import Architecture
from kb_models.models.attention import attend, projected
from kb_models.models.builder import Builder
from kb_models.models.config import ConfigKeys
from kb_models.models.gpt2 import ACTIVATIONS
from kb_models.models.params import ModelParams, Phase
from kb_models.ops import Heads


class Bert(Architecture):
    """The encoder of BERT of any size, with its pooler."""

    phases: ClassVar[tuple[Phase, ...]] = ("prefill",)
    splits_tokens = True

    def __init__(self, keys: ConfigKeys) -> None:
        self.hidden = keys.size("hidden_size")
        self.layers = keys.size("num_hidden_layers")
        keys.divides("num_attention_heads", "hidden_size")
        heads = keys.size("num_attention_heads")
        self.heads = Heads(heads=heads, kv_heads=heads, head_dim=self.hidden // heads)
        self.mlp = keys.size("intermediate_size")
        self.vocab = keys.size("vocab_size")
        self.n_positions = self.positions = keys.size("max_position_embeddings")
        self.kinds = keys.size("type_vocab_size")
        self.epsilon = keys.number("layer_norm_eps", 1e-12)
        self.function = ACTIVATIONS[keys.choice("hidden_act", ACTIVATIONS, "gelu")]
        keys.only("position_embedding_type", ["absolute"], "positions of pairs of tokens are not built")
        keys.only("is_decoder", [False], "a decoder of this type is not built")
        keys.only("add_cross_attention", [False], "attention to another model is not built")
        keys.only("tie_word_embeddings", [True, False], "a head for words is not built")

    @property
    def parameters(self) -> int:
        """Three tables and a norm; blocks of four square matrices, two of the MLP and two norms; the pooler."""
        h, mlp = self.hidden, self.mlp
        tables = (self.vocab + self.n_positions + self.kinds) * h + 2 * h
        block = 4 * (h * h + h) + (h * mlp + mlp) + (mlp * h + h) + 2 * 2 * h
        return tables + self.layers * block + h * h + h

    @property
    def axes(self) -> Mapping[str, int]:
        """Heads, MLP and the residual stream."""
        heads = self.heads.heads
        return {"heads": heads, "kv_heads": heads, "mlp": self.mlp, "hidden": self.hidden}

    def build(self, m: Builder, p: ModelParams) -> None:
        """Words, positions and kinds of tokens; the blocks; the pooler."""
        m.named("embedding")
        sizes = {"words": self.vocab, "positions": self.n_positions, "kinds": self.kinds}
        terms = [m.embedding(name, p.rows, size, self.hidden) for name, size in sizes.items()]
        x = m.norm_of_sum("norm", terms, self.epsilon, is_centred=True)
        for number, repeats in self.simulated(p):
            m.named(f"block{number}", repeats)
            x = self._block(m, x, p)
        m.named("pooler")
        first = m.rows("first", [x], p.tokens, is_first=True)
        m.linear("dense", first, self.hidden, "hidden", bias=True, activation="tanh", weights=p.weights)

    def _block(self, m: Builder, x: Value, p: ModelParams) -> Value:
        """One block: the rows of *x* after it."""
        seen = attend(m, projected(m, x, self.heads, p, bias=True), self.heads, p, causal=False)
        added = m.linear("o", seen, self.hidden, "hidden", bias=True, weights=p.weights)
        x = m.norm_of_sum("norm1", (x, added), self.epsilon, is_centred=True)
        up = m.linear("up", x, self.mlp, "mlp", bias=True, activation=self.function, weights=p.weights)
        added = m.linear("down", up, self.hidden, "hidden", bias=True, weights=p.weights)
        return m.norm_of_sum("norm2", (x, added), self.epsilon, is_centred=True)
