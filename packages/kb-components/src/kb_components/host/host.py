"""The host's end of the bus, where launches and host traffic begin."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.component import ComponentBase


class HostSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: what a call of the driver costs. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, Meta(ge=0)] = 0.0


class HostNode(ComponentBase[HostSpec]):
    """An end of the fabric. Nothing is sent over it yet: launches take no time."""

    spec_type = HostSpec
