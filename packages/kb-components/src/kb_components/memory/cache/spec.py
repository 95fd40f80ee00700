"""The attributes of a memory with a cache, which the block and its reference model share."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from kb_components.cost_fields import bandwidth_gbs, time_ns

MOST_LINES: Final = 1 << 24
"""The most lines of a cache, whose tables take 8 bytes a line.

Source: assumed (16 times the lines of the largest bundled cache).
"""
_MOST_LINE_NBYTES: Final = 1 << 20
"""The longest line. Source: assumed."""
_BYTES: Final = ("hbm: bytes", "hbm: service", "hbm: busy with others", "pe_dma: service")
_LATENCY: Final = ("hbm: latency", "hbm: service", "pe_dma: service")
"""A log does not split the parts of a request between the cache and the memory behind it, so they belong to both."""


class CachedMemorySpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cache of `sets` x `ways` lines of `line_nbytes` bytes, in front of a memory.

    `cache_bw_gbs` and `cache_latency_ns` are bandwidth and latency of the cache's port, in GB/s (reads and writes
    together) and ns. `bw_gbs` and `latency_ns` are bandwidth and latency of the memory behind it: a missing line adds
    that latency.

    `index`: line x lies in set x modulo `sets` (`modulo`), or in a set by a multiplicative hash of x (`hashed`; Knuth,
    The Art of Computer Programming, vol. 3, 6.4). `write`: with `back`, a written line goes to the memory when another
    line takes its place; with `through`, at once, and a line that is missing stays missing. `multicast`: so many reads
    of the same bytes take the port once, if each of them comes before the one before it has left.

    `burst_nbytes`: a write that other requests interrupt is served in whole bursts. Source of all defaults: assumed.
    """

    bw_gbs: Annotated[float, bandwidth_gbs(_BYTES)]
    latency_ns: Annotated[float, time_ns(_LATENCY)]
    cache_bw_gbs: Annotated[float, bandwidth_gbs(_BYTES, "cache bandwidth")]
    cache_latency_ns: Annotated[float, time_ns(_LATENCY, "cache latency")]
    sets: Annotated[int, Meta(ge=1, le=MOST_LINES)]
    ways: Annotated[int, Meta(ge=1, le=MOST_LINES)]
    line_nbytes: Annotated[int, Meta(ge=1, le=_MOST_LINE_NBYTES)] = 128
    index: Literal["modulo", "hashed"] = "modulo"
    write: Literal["back", "through"] = "back"
    multicast: Annotated[int, Meta(ge=1)] = 1
    burst_nbytes: Annotated[int, Meta(ge=1)] = 64
