"""Byte-addressable memory: `MemoryStore` and its errors."""

from kb_dataexec.memory.store import MemoryStore, StoreError

__all__ = [
    "MemoryStore",
    "StoreError",
]
