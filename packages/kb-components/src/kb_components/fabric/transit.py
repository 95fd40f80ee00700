"""Transit: a forwarding node (router, bridge, switch) that adds latency to the head of a transfer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import ForwardingComponent, ps_from_ns


class TransitSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: the delay of the head of a transfer. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, time_ns(("links: request", "links: response", "pe_dma: service"), "overhead")] = 0.0


class Transit(ForwardingComponent[TransitSpec]):
    """Forwards transfers, and delays the head of each. It has no bandwidth of its own: the links bound the bytes."""

    spec_type = TransitSpec

    def overhead_ps(self) -> int:
        """The delay of the head of a transfer: `overhead_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)
