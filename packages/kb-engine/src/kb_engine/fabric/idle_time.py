"""Idle times: the duration of a read or write with nothing else under way, in closed form.

Pure, for estimates alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from msgspec.json import encode

from kb_engine.fabric.interleaved import InterleavedPath
from kb_engine.fabric.paths import Leg, MemoryPath
from kb_messages import Rectangle

_MANY_NBYTES: Final = 1 << 40
"""Bytes of so many packets that the bytes of one packet follow from their number."""


def alone_ps(path: MemoryPath | InterleavedPath, memory: Rectangle, write: bool) -> tuple[int, int]:
    """Picoseconds of a read or write of *memory* with nothing else under way, and picoseconds of its bytes at the
    memory.

    For interleaved bytes, the times of the slowest slice: the requests go at once, and share the link at the node that
    asks.
    """
    if isinstance(path, MemoryPath):
        return _idle_ps(path, memory, write, 0)
    parts = path.parts(memory)
    own_link_ps = path.own_link_ps(memory, parts, write)
    found = [_idle_ps(way, part, write, own_link_ps) for way, part in parts]
    return max(whole_ps for whole_ps, _ in found), max(bytes_ps for _, bytes_ps in found)


def _idle_ps(path: MemoryPath, memory: Rectangle, write: bool, least_ps: int) -> tuple[int, int]:
    """The times of `alone_ps`, for bytes that take at least *least_ps* on their links."""
    latency_ps, bytes_ps = path.memory.idle_ps(memory, write)
    data = path.away if write else path.back
    slowest_ps = max(bytes_ps, data.slowest_ps(memory.nbytes), least_ps)
    return path.request_ps + latency_ps + slowest_ps + path.response_ps, bytes_ps


def form_of_idle(path: MemoryPath | InterleavedPath) -> Hashable:
    """The data besides the rectangle from which `alone_ps` follows: equal forms give equal times at equal places in
    memory.
    """
    if isinstance(path, MemoryPath):
        memory = type(path.memory), encode(path.memory.spec)
        return *memory, path.request_ps, path.response_ps, _form_of_leg(path.away), _form_of_leg(path.back)
    own_links = tuple([None if link is None else link.rate.ps_each for link in path.own_links])
    return path.region.interleaving, own_links, tuple(map(form_of_idle, path.slices))


def _form_of_leg(leg: Leg) -> Hashable:
    narrowest = max([hop.state.rate.ps_each for hop in leg.hops], default=0)
    return narrowest, leg.on_links(1), leg.on_links(_MANY_NBYTES)
