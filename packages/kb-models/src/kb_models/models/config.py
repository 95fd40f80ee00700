"""Config: the sizes of a model, as builders take them."""

from __future__ import annotations

from msgspec import Struct


class Config(Struct, frozen=True, kw_only=True):
    """The sizes of a model, from a Hugging Face `config.json`."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    norm_epsilon: float = 1e-5

    @classmethod
    def from_hugging_face(cls, given: dict[str, object]) -> Config:
        """The sizes in *given*, the content of a `config.json` of a Llama."""
        get = given.__getitem__
        hidden, heads = int(str(get("hidden_size"))), int(str(get("num_attention_heads")))
        return cls(
            hidden=hidden,
            layers=int(str(get("num_hidden_layers"))),
            heads=heads,
            kv_heads=int(str(given.get("num_key_value_heads", heads))),
            head_dim=int(str(given.get("head_dim", hidden // heads))),
            mlp=int(str(get("intermediate_size"))),
            vocab=int(str(get("vocab_size"))),
            norm_epsilon=float(str(given.get("rms_norm_eps", 1e-5))),
        )
