"""The host's end of the bus, where launches and host traffic begin."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import HostPort, ps_from_ns


class HostSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: what a call of the driver costs; `dma_channels`: reads and writes of memory at once, at most.

    Source: assumed, unless the topology says.
    """

    overhead_ns: Annotated[float, Meta(ge=0)] = 0.0
    dma_channels: Annotated[int, Meta(ge=1)] = 4


class HostNode(HostPort[HostSpec]):
    """Every call, of whatever kind, costs the same before its first byte leaves."""

    spec_type = HostSpec

    def overhead_ps(self) -> int:
        """Picoseconds from `overhead_ns`, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    @property
    def channels(self) -> int:
        """From `dma_channels`."""
        return self.spec.dma_channels
