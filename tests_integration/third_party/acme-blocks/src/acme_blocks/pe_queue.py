"""A PE_QUEUE of another make: the kernel polls for doorbells, and credits wait for the next turn of a ring."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import MessageQueue, ps_from_ns


class AcmeQueueSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`slots` for each channel. A kernel looks every `poll_ns`, and a ring takes credits along every `turn_ns`."""

    slots: Annotated[int, Meta(ge=1)]
    poll_ns: Annotated[float, Meta(ge=0)]
    turn_ns: Annotated[float, Meta(ge=0)]


class AcmeQueue(MessageQueue[AcmeQueueSpec]):
    """Doorbells and credits wait for half of a period, the mean."""

    spec_type = AcmeQueueSpec

    @property
    def depth(self) -> int:
        """`slots`."""
        return self.spec.slots

    def doorbell_ps(self) -> int:
        """Half of `poll_ns`. Source: assumed."""
        return ps_from_ns(self.spec.poll_ns / 2)

    def credit_ps(self) -> int:
        """Half of `turn_ns`. Source: assumed."""
        return ps_from_ns(self.spec.turn_ns / 2)
