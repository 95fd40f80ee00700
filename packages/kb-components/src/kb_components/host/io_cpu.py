"""IO_CPU: takes commands from the host and hands them to the cubes of its SIP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.component import ComponentBase


class IoCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: to read a command and decide where it goes. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, Meta(ge=0)] = 0.0


class IoCpu(ComponentBase[IoCpuSpec]):
    """An end of the fabric. Nothing is sent to it yet: launches take no time."""

    spec_type = IoCpuSpec
