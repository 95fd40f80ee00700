"""MemoryRegion: the addresses of one memory."""

from __future__ import annotations

from msgspec import Struct

from kb_messages import MemorySpace


class MemoryRegion(Struct, frozen=True, kw_only=True, gc=False):
    """One memory: *nbytes* bytes from the address *base* on. *owner* is the base without its offset bits."""

    node_id: str
    owner: int
    base: int
    nbytes: int
    space: MemorySpace
    unit: int
