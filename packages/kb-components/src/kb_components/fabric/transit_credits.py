"""TransitCredits: a forwarding node with buffers of a fixed size. A full buffer holds back the link before it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import BufferedComponent, ps_from_ns


class TransitCreditsSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attributes of a node with buffers. Source of each default: assumed.

    `overhead_ns` is the delay of the head of a packet. Each link that leads to the node has a buffer of `buffer_nbytes`
    for packets with their headers. `credit_ns` is the time until the node before knows that a packet has left.
    """

    buffer_nbytes: Annotated[int, Meta(ge=1)]
    overhead_ns: Annotated[float, time_ns(("links: request", "links: response", "pe_dma: service"), "overhead")] = 0.0
    credit_ns: Annotated[float, time_ns(("links: shared", "pe_dma: service"), "latency of credits")] = 0.0


class TransitCredits(BufferedComponent[TransitCreditsSpec]):
    """Forwards packets by virtual cut-through, with credits. Links and buffers are given to whole packets.

    Source: Dally and Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 13.
    """

    spec_type = TransitCreditsSpec

    def overhead_ps(self) -> int:
        """The delay of the head of a packet: `overhead_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    @property
    def buffer_nbytes(self) -> int:
        """Bytes of the buffer of each link that leads to the node."""
        return self.spec.buffer_nbytes

    def credit_ps(self) -> int:
        """The time until the node before knows of free room: `credit_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.credit_ns)
