"""Where a tensor of a call lies on the chip."""

from __future__ import annotations

from msgspec import Struct

from kb_engine import Sharding


class TensorPlacement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a tensor lies, as `Host.empty` takes it: the cut into blocks, their memories, a sharding, a cube."""

    blocks: tuple[int, int] = (1, 1)
    slices: tuple[int, ...] | None = None
    memory: str = "hbm"
    shard: Sharding | str | None = None
    cube: int | None = None
