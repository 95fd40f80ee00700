"""PE_QUEUE: the slots, doorbells and credits of the messages that programs on other PEs send to this PE."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from kb_components.cost_fields import places, time_ns
from kb_engine.block import Context, MessageQueue, ps_from_ns


class PeQueueSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`depth` slots in TCM for each channel that leads to this PE.

    `doorbell_ns`: from the commit of the last byte of a message, or from the arrival of a signal, until the kernel that
    waits goes on. `credit_ns`: from the moment at which a kernel gives a slot back until the credit leaves. Source:
    assumed, unless the topology states them; two cycles of a small core at 1 GHz. With a depth of 3 a kernel can send a
    message on while the next one comes, because a slot is free only when the message that was sent on is acknowledged.
    """

    depth: Annotated[int, places(("program: waits for other PEs",), "slot", "credit")] = 3
    doorbell_ns: Annotated[float, time_ns(("pe_queue: doorbell",), "doorbell time")] = 2.0
    credit_ns: Annotated[float, time_ns(("pe_queue: credit",), "credit time")] = 2.0


class PeQueue(MessageQueue[PeQueueSpec]):
    """Slots, doorbells and credits with constant times."""

    spec_type = PeQueueSpec

    def __init__(self, spec: PeQueueSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._doorbell_ps = ps_from_ns(spec.doorbell_ns)
        self._credit_ps = ps_from_ns(spec.credit_ns)

    @property
    def depth(self) -> int:
        """The slots of each channel, from the Spec."""
        return self.spec.depth

    def doorbell_ps(self) -> int:
        """`doorbell_ns` in picoseconds, rounded up."""
        return self._doorbell_ps

    def credit_ps(self) -> int:
        """`credit_ns` in picoseconds, rounded up."""
        return self._credit_ps
