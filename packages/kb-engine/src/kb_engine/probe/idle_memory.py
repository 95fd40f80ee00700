"""What a memory takes for one read when it has nothing else to do."""

from __future__ import annotations

from typing import Any

from kb_engine.block.component import Context
from kb_engine.timing.clock import Clock
from kb_messages import Rectangle


def idle_read_ps(block: Any, base: int, nbytes: int) -> tuple[int, int]:
    """Picoseconds of a read of *nbytes* at address *base*: until its first byte, and from the first to the last byte.

    A new block with the Spec of *block* serves the read at time 0.
    """
    context = block.context
    idle = type(block)(block.spec, Context(block.node_id, Clock(), context.fabric, context.memory_nbytes))
    first, last = idle.reserve(0, Rectangle(base, 1, nbytes, nbytes), 0, False)
    return first, last - first
