"""XBAR: one half of the cube's crossbar between PE DMAs and HBM slices. Non-blocking inside: only its links contend."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import ForwardingComponent, ps_from_ns


class XbarSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: arbitration and switching of a transfer's head. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, Meta(ge=0)]


class Xbar(ForwardingComponent[XbarSpec]):
    """A crossbar half."""

    spec_type = XbarSpec

    def overhead_ps(self) -> int:
        """Picoseconds from `overhead_ns`, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)
