"""GPT-2: layer norm before each half of a block, attention to earlier tokens, learned positions, biases everywhere.

Source of the sizes and the order of ops: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb_models.layout import Value
from kb_models.models.architecture import Architecture
from kb_models.models.attention import attend, last_norm, projected
from kb_models.models.builder import Builder
from kb_models.models.config import ConfigKeys
from kb_models.models.params import ModelParams
from kb_models.ops import Heads

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
"""The activation functions of Hugging Face that ops have, by name."""


class Gpt2(Architecture):
    """GPT-2 of any size."""

    splits_tokens = True

    def __init__(self, keys: ConfigKeys) -> None:
        self.hidden = keys.size("n_embd")
        self.layers = keys.size("n_layer")
        keys.divides("n_head", "n_embd")
        heads = keys.size("n_head")
        self.heads = Heads(heads=heads, kv_heads=heads, head_dim=self.hidden // heads)
        self.mlp = keys.size("n_inner", 4 * self.hidden)
        self.vocab = keys.size("vocab_size")
        self.n_positions = self.positions = keys.size("n_positions")
        self.epsilon = keys.number("layer_norm_epsilon", 1e-5)
        self.function = ACTIVATIONS[keys.choice("activation_function", ACTIVATIONS, "gelu_new")]
        keys.get("n_ctx")  # an older name of n_positions
        keys.only("tie_word_embeddings", [True], "the head of GPT-2 is its table of words")
        keys.only("add_cross_attention", [False], "attention to another model is not built")
        for key, value in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
            keys.only(key, [value], "scores are divided by the root of a head's size")
        keys.only("reorder_and_upcast_attn", [False], "the order of attention is the kernel's")

    @property
    def parameters(self) -> int:
        """Tables of words and positions; blocks of two norms, four matrices with biases; the last norm."""
        h, mlp = self.hidden, self.mlp
        block = 2 * 2 * h + (h * 3 * h + 3 * h) + (h * h + h) + (h * mlp + mlp) + (mlp * h + h)
        return (self.vocab + self.n_positions) * h + self.layers * block + 2 * h

    @property
    def axes(self) -> Mapping[str, int]:
        """Heads, MLP, words and the residual stream."""
        heads = self.heads.heads
        return {"heads": heads, "kv_heads": heads, "mlp": self.mlp, "vocab": self.vocab, "hidden": self.hidden}

    def build(self, m: Builder, p: ModelParams) -> None:
        """Words and positions, the blocks, the last norm, and the word that comes next."""
        rows = p.rows
        m.named("embedding")
        words = m.embedding("words", rows, self.vocab, self.hidden)
        stream = m.plus("sum", words, m.embedding("positions", rows, self.n_positions, self.hidden))
        added = m.zeros("nothing", stream)
        for number, repeats in self.simulated(p):
            m.named(f"block{number}", repeats)
            stream, added = self._block(m, stream, added, p)
        m.named("head")
        m.head("words", last_norm(m, "norm", (stream, added), self.epsilon, p, is_centred=True), self.vocab)

    def _block(self, m: Builder, stream: Value, added: Value, p: ModelParams) -> tuple[Value, Value]:
        """One block: the residual stream and what comes on top of it, before the block and after it."""
        stream, x = m.add_norm("norm1", stream, added, self.epsilon, is_centred=True)
        qkv = projected(m, x, self.heads, p, bias=True)
        x = attend(m, qkv, self.heads, p)
        added = m.linear("o", x, self.hidden, "hidden", bias=True, weights=p.weights)
        stream, x = m.add_norm("norm2", stream, added, self.epsilon, is_centred=True)
        x = m.linear("up", x, self.mlp, "mlp", bias=True, activation=self.function, weights=p.weights)
        return stream, m.linear("down", x, self.hidden, "hidden", bias=True, weights=p.weights)
