"""The roofline of a run: the least time for its operations and bytes, and what sets it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kb_cli.run.result_parts import Traffic
from kb_cli.terminal.units import PS_PER_NS

COMPUTE = "compute"


class Roofline(Struct, frozen=True, kw_only=True):
    """What `bound` allows: `compute`, or a memory space. No chip like this one takes less than `least_ns`.

    `memory` is the space that the bytes of the run hold longest, at `memory_gbs` of its bandwidth; its share of that
    bandwidth is `memory_share`. `compute_share` is that of the peak. All shares are 0 to 1, over the time of the
    kernels. None stands for a chip that states no bandwidth, or no peak.
    """

    bound: str
    least_ns: float
    memory: str | None
    memory_gbs: float | None
    memory_share: float | None
    compute_share: float | None


def roofline(
    flops: int,
    span_ps: int,
    traffic: Mapping[str, Traffic],
    bandwidth_gbs: Mapping[str, float],
    peak_flops: float | None,
) -> Roofline | None:
    """The roofline of *flops* operations and the bytes of *traffic* by memory space, which took *span_ps*.

    The bandwidths are those of all memories of a space together, and *peak_flops* is that of the whole chip. Returns
    None for a run that took no time, or on a chip that states neither.
    """
    needs_ns = {
        space: (moved.read + moved.write) / bandwidth_gbs[space]
        for space, moved in traffic.items()
        if bandwidth_gbs.get(space) and moved.read + moved.write
    }
    compute_ns = flops / peak_flops * 1e9 if peak_flops else None
    if not span_ps or (compute_ns is None and not needs_ns):
        return None
    span_ns = span_ps / PS_PER_NS
    memory = max(needs_ns, key=lambda space: needs_ns[space], default=None)
    memory_ns = needs_ns[memory] if memory is not None else 0.0
    in_memory = memory is not None and memory_ns >= (compute_ns or 0.0)
    return Roofline(
        bound=memory if in_memory and memory is not None else COMPUTE,
        least_ns=max(memory_ns, compute_ns or 0.0),
        memory=memory,
        memory_gbs=bandwidth_gbs[memory] if memory is not None else None,
        memory_share=memory_ns / span_ns if memory is not None else None,
        compute_share=compute_ns / span_ns if compute_ns is not None else None,
    )
