"""A PE_DMA of another make: reads and writes share one engine, and each row of a transfer has a descriptor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from kb_engine.block import Context, ExclusivePort, Gate, Initiator, TileToken, ps_from_ns
from kb_messages import OFFSET_BITS, StageType, WaitReason


class AcmeDmaSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`row_ns` to read the descriptor of one row."""

    row_ns: Annotated[float, Meta(ge=0)]
    queue_depth: Annotated[int, Meta(ge=1)] = 2


class AcmeDma(Initiator[AcmeDmaSpec]):
    """Reads all descriptors of a transfer, then sends the request. One transfer at a time, in either direction."""

    spec_type = AcmeDmaSpec
    serves = (StageType.DMA_READ, StageType.DMA_WRITE)
    state = ("engine",)

    def __init__(self, spec: AcmeDmaSpec, context: Context) -> None:
        super().__init__(spec, context)
        self.engine = ExclusivePort(WaitReason.CHANNEL)

    def gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """The one engine."""
        return (self.engine,)

    def begin(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """`row_ns` for each row, then the transfer. Source: assumed."""
        stage = token.stages[token.index]
        params: Any = stage.params  # DmaParams, by its stage type
        memory = params.memory
        fabric = self.context.fabric
        move = fabric.read if stage.stage_type is StageType.DMA_READ else fabric.write
        start_ps = self.clock.now_ps + memory.rows * ps_from_ns(self.spec.row_ns)
        move(fabric.path(self.node_id, memory.base >> OFFSET_BITS), memory, start_ps, finish, token)
