"""ModelParams: the parameters of a model's run."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Size = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Phase = Literal["prefill", "decode"]
Weights = Literal["same", "int8", "int4", "fp8"]


class ModelParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a model's run.

    `phase` is `prefill`, with `tokens` tokens of each of `batch` sequences, or `decode`, a step of `batch` sequences
    with `context` keys each, the new one among them. `layers` blocks are simulated, and stand for all blocks of the
    model. `map` is the layout, such as `heads=cube,mlp=cube`; `auto` is one for the model and the chip. `dtype` is that
    of activations, and `weights` the form of the matrices in memory, `same` as `dtype`. `paged` is the number of keys
    of a block of the cache, 0 for a cache in one piece. `op` is the only op to run.
    """

    phase: str = "decode"
    batch: Size = 1
    tokens: Size = 512
    context: Size = 4096
    layers: Size = 1
    map: str = "auto"
    dtype: Literal["f32", "f16", "bf16"] = "f16"
    weights: Weights = "same"
    paged: Count = 0
    op: str | None = None

    @property
    def rows(self) -> int:
        """The rows of an activation: all tokens in prefill, the new one of each sequence in decode."""
        return self.batch * (self.tokens if self.phase == "prefill" else 1)
