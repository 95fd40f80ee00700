"""Byte-addressable memory that starts from files or arrays."""

from kb_dataexec.memory.store import MemoryStore, StoreError

__all__ = [
    "MemoryStore",
    "StoreError",
]
