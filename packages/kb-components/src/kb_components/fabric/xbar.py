"""XBAR: one half of the crossbar of a cube, between PE_DMAs and HBM slices. Only its links contend, not its inside."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import ForwardingComponent, ps_from_ns


class XbarSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: arbitration and switching of the head of a transfer. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, time_ns(("links: request", "links: response", "pe_dma: service"), "overhead")]


class Xbar(ForwardingComponent[XbarSpec]):
    """One half of a crossbar. It delays the head of each transfer."""

    spec_type = XbarSpec

    def overhead_ps(self) -> int:
        """The delay of the head of a transfer: `overhead_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)
