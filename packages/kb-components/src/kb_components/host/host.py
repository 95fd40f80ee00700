"""The end of the bus at the host, where launches and host traffic begin."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import HostPort, ps_from_ns


class HostSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: the time of a driver call. `dma_channels`: the most reads and writes of memory at once.

    Source: assumed, unless the topology says.
    """

    overhead_ns: Annotated[float, time_ns(("host",), "overhead")] = 0.0
    dma_channels: Annotated[int, Meta(ge=1)] = 4


class HostNode(HostPort[HostSpec]):
    """Every call takes the same time before its first byte leaves."""

    spec_type = HostSpec

    def overhead_ps(self) -> int:
        """The time of a driver call: `overhead_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    @property
    def channels(self) -> int:
        """The most reads and writes of memory at once, from `dma_channels`."""
        return self.spec.dma_channels
