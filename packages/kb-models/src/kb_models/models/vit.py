"""ViT, the vision transformer: patches of an image as tokens, and equal blocks with a layer norm before each half.

Source of the sizes and the order of ops: Dosovitskiy et al., arXiv 2010.11929.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kb_engine import WorkloadStep
from kb_messages import BenchmarkError
from kb_models.layout import Value
from kb_models.models.architecture import Architecture
from kb_models.models.builder import Builder
from kb_models.models.config import ConfigKeys
from kb_models.models.labels import labels_of
from kb_models.models.params import ModelParams, Phase
from kb_models.ops import Heads, Window


class ViT(Architecture):
    """A classifier of images of one size. `ModelParams.batch` is the number of images, and `ModelParams.tokens` the
    tokens of one, which follow from its size."""

    phases: ClassVar[tuple[Phase, ...]] = ("prefill",)

    def __init__(self, keys: ConfigKeys) -> None:
        self.hidden = keys.size("hidden_size", 768)
        self.layers = keys.size("num_hidden_layers", 12)
        heads = keys.size("num_attention_heads", 12)
        if self.hidden % heads:
            raise keys.error("num_attention_heads", f"{heads}", f"a divisor of hidden_size, {self.hidden}")
        self.heads = Heads(heads=heads, kv_heads=heads, head_dim=self.hidden // heads)
        self.mlp = keys.size("intermediate_size", 3072)
        self.channels = keys.size("num_channels", 3)
        self.side, self.patch = keys.size("image_size", 224), keys.size("patch_size", 16)
        if self.side % self.patch:
            raise keys.error("patch_size", str(self.patch), f"a divisor of image_size, {self.side}")
        self.epsilon = keys.number("layer_norm_eps", 1e-12)
        self.has_bias = keys.flag("qkv_bias", True)
        keys.only("hidden_act", ["gelu"], "other activations are not built")
        for of_other_heads in ("encoder_stride", "pooler_act", "pooler_output_size"):
            keys.get(of_other_heads)
        self.classes = labels_of(keys)
        self.patches = (self.side // self.patch) ** 2
        self.positions = self.patches + 1

    @property
    def parameters(self) -> int:
        """Patches, a class token and positions; blocks of four square matrices, two of the MLP and two norms; the last
        norm, and the classifier."""
        h, mlp, d = self.hidden, self.mlp, self.heads.heads * self.heads.head_dim
        embedding = self.patch**2 * self.channels * h + h + h + (self.patches + 1) * h
        attention = 4 * h * d + 3 * d * self.has_bias + h
        block = attention + (h * mlp + mlp) + (mlp * h + h) + 2 * 2 * h
        return embedding + self.layers * block + 2 * h + (h + 1) * self.classes

    @property
    def axes(self) -> Mapping[str, int]:
        """Heads, MLP, classes and the residual stream."""
        heads = self.heads.heads
        return {"heads": heads, "kv_heads": heads, "mlp": self.mlp, "vocab": self.classes, "hidden": self.hidden}

    def build(self, m: Builder, p: ModelParams) -> None:
        """Patches, class token and positions; the blocks; the class of the first token of each image.

        Raises BenchmarkError for another number of tokens than an image has.
        """
        if p.tokens != self.positions:
            needs = f"{self.positions}, the patches of an image of {self.side} x {self.side} and a class token"
            raise BenchmarkError("tokens", str(p.tokens), needs)
        images = m.images("images", p.batch, self.side, self.side, self.channels)
        patches = m.convolution("patches", images, self.hidden, Window.of(self.patch, self.patch), axis="")
        x = m.class_token("tokens", patches)
        added = m.zeros("nothing", x)
        for number, repeats in self.simulated(p):
            m.named(f"block{number}", repeats)
            x, added = self._block(m, x, added, p)
        m.named("")
        first = m.rows("first", (x, added), self.positions, is_first=True)
        m.linear("classes", m.layer_norm("norm", first, self.epsilon), self.classes, "vocab", bias=True)

    def _block(self, m: Builder, x: Value, added: Value, p: ModelParams) -> tuple[Value, Value]:
        """One block: the residual stream, and the last part of it that is not added yet."""
        d, heads = self.heads.head_dim, self.heads.heads
        x, normed = m.add_norm("norm1", x, added, self.epsilon, is_centred=True)
        outs = [("q", heads * d, "heads", d), ("k", heads * d, "kv_heads", d), ("v", heads * d, "kv_heads", d)]
        q, k, v = m.projections("qkv", normed, outs, bias=self.has_bias, weights=p.weights)
        seen = m.prefill_attention("attention", (q, k, v), self.heads, p.batch, causal=False)
        added = m.linear("o", seen, self.hidden, "hidden", bias=True, weights=p.weights)
        x, normed = m.add_norm("norm2", x, added, self.epsilon, is_centred=True)
        up = m.linear("up", normed, self.mlp, "mlp", bias=True, activation="gelu", weights=p.weights)
        return x, m.linear("down", up, self.hidden, "hidden", bias=True, weights=p.weights)

    def step(self, p: ModelParams) -> WorkloadStep:
        """One pass of all images."""
        return WorkloadStep(phase="pass", items=p.batch, unit="images")
