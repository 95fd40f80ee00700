"""Messages between the host and the chip."""

from __future__ import annotations

from msgspec import Struct


class KernelLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start one kernel on `target_pes` (node id prefixes), each with its place in the launch as program id."""

    launch_id: int
    kernel: str
    target_pes: tuple[str, ...]
    nbytes: int = 0
