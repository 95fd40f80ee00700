"""M_CPU: hands what IO_CPU sends to the PEs of its cube."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.component import ComponentBase


class MCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: to read a command and pass it on. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, Meta(ge=0)] = 0.0


class MCpu(ComponentBase[MCpuSpec]):
    """An end of the fabric. Nothing is sent to it yet: launches take no time."""

    spec_type = MCpuSpec
