"""How long a read or a write takes with nothing else under way, in closed form. Pure, and for estimates alone."""

from __future__ import annotations

from kb_engine.fabric.interleaved import InterleavedPath
from kb_engine.fabric.paths import MemoryPath
from kb_messages import Rectangle


def alone_ps(path: MemoryPath | InterleavedPath, memory: Rectangle, write: bool) -> tuple[int, int]:
    """Picoseconds of a read or write of *memory* with nothing else under way, and those of its bytes at the memory.

    Of interleaved bytes, those of the slowest slice: their requests go at once, and share the link at the node that
    asks.
    """
    if isinstance(path, MemoryPath):
        return _idle_ps(path, memory, write, 0)
    parts = path.parts(memory)
    own_link_ps = path.own_link_ps(memory, parts, write)
    found = [_idle_ps(way, part, write, own_link_ps) for way, part in parts]
    return max(whole_ps for whole_ps, _ in found), max(bytes_ps for _, bytes_ps in found)


def _idle_ps(path: MemoryPath, memory: Rectangle, write: bool, least_ps: int) -> tuple[int, int]:
    """As `alone_ps`. The bytes take at least *least_ps* on their links."""
    latency_ps, bytes_ps = path.memory.idle_ps(memory, write)
    data = path.away if write else path.back
    slowest_ps = max(bytes_ps, data.slowest_ps(memory.nbytes), least_ps)
    return path.request_ps + latency_ps + slowest_ps + path.response_ps, bytes_ps
