"""Figures of a finished simulation: utilization, traffic, limits of the chip, and roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from kb_cli.run.base.result import COMPUTE, ChosenTile, Roofline, Traffic
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.usage import Usage
from kb_cli.terminal.units import PS_PER_NS
from kb_engine import Engine, LaunchResult
from kb_messages import DType, PlanError, StageType
from kb_topology import NodeKind, exact


class Use(Struct, frozen=True, kw_only=True):
    """How busy the `count` blocks of one kind were, 0 to 1: the mean over all, and the busiest, which is `node`."""

    count: int
    mean: float
    busiest: float
    node: str


class Metrics(Struct, frozen=True, kw_only=True):
    """The figures of a run. `uses` are by kind of block, memory and link; `traffic` and `bandwidth_gbs` by memory
    space.

    `span_ps` adds up, over all launches, the time from the first kernel's start to the last kernel's end, in
    picoseconds. All other figures cover that time. `reg` counts bytes between TCM and registers, so its bandwidth is
    that of the TCM ports. `peak_flops` is None when no block states a peak.
    """

    span_ps: int
    uses: dict[str, Use]
    traffic: dict[str, Traffic]
    bandwidth_gbs: dict[str, float]
    tile_stages: int
    peak_flops: float | None
    chosen_tiles: list[ChosenTile] = []


def measure(engine: Engine, launches: Iterable[LaunchResult], plans: PlanTally, dtype: object, usage: Usage) -> Metrics:
    """Returns the metrics of *launches*. `peak_flops` is for operands of *dtype*, and None when *dtype* is no DType."""
    span_ps = sum(launch.end_ps - launch.start_ps for launch in launches)
    return Metrics(
        span_ps=span_ps,
        uses=uses_of(usage.busy_ps, span_ps),
        traffic=_traffic(usage, plans),
        bandwidth_gbs=_bandwidths(engine),
        tile_stages=plans.n_stages,
        peak_flops=peak_flops(engine, dtype) if isinstance(dtype, DType) else None,
        chosen_tiles=plans.chosen_tiles,
    )


def uses_of(busy: Iterable[tuple[str, str, int]], span_ps: int) -> dict[str, Use]:
    """Returns the utilization of each kind of block over *span_ps*, from (kind, node, picoseconds in service)."""
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for kind, node, busy_ps in busy:
        by_kind.setdefault(kind, []).append((busy_ps, node))
    uses = {}
    for kind, blocks in by_kind.items():
        top_ps, top = max(blocks, key=lambda block: block[0])
        total_ps = sum(busy_ps for busy_ps, _ in blocks)
        uses[kind] = Use(
            count=len(blocks),
            mean=total_ps / (len(blocks) * span_ps) if span_ps else 0.0,
            busiest=top_ps / span_ps if span_ps else 0.0,
            node=top,
        )
    return uses


def _traffic(usage: Usage, plans: PlanTally) -> dict[str, Traffic]:
    """Returns the bytes by memory space. Memories behind the fabric count their bytes; TCM and registers follow from
    plans.
    """
    traffic = usage.traffic
    moved = plans.nbytes
    fetched, stored, streamed = moved[StageType.FETCH], moved[StageType.STORE], plans.streamed_nbytes
    tcm = traffic.get("tcm", Traffic(read=0, write=0))
    traffic["tcm"] = Traffic(
        read=tcm.read + fetched + moved[StageType.DMA_WRITE],
        write=tcm.write + moved[StageType.DMA_READ] - streamed + stored,
    )
    traffic["reg"] = Traffic(read=stored, write=fetched + streamed)
    return traffic


def _bandwidths(engine: Engine) -> dict[str, float]:
    """Returns the GB/s of all memories of a space together, for the spaces whose blocks state a bandwidth."""
    found: dict[str, Fraction] = {}
    for component in engine.components.values():
        node = engine.topology.graph.nodes[component.node_id]
        bw_gbs: Any = getattr(component.spec, "bw_gbs", None)
        if bw_gbs is not None and node.memory is not None:
            space = "reg" if node.kind is NodeKind.PE_TCM else node.memory.space.value
            found[space] = found.get(space, Fraction(0)) + exact(bw_gbs)
    return {space: float(bw_gbs) for space, bw_gbs in found.items()}


def peak_flops(engine: Engine, dtype: DType) -> float | None:
    """Returns the operations a second of all blocks together for operands of *dtype*; None when no block states any."""
    peaks = []
    for component in engine.components.values():
        peak = getattr(component, "peak_flops", None)
        if peak is not None:
            try:
                peaks.append(float(peak(dtype)))
            except PlanError:  # a block that takes no such operands adds nothing
                continue
    return sum(peaks) if peaks else None


def roofline(
    flops: int,
    span_ps: int,
    traffic: Mapping[str, Traffic],
    bandwidth_gbs: Mapping[str, float],
    peak_flops: float | None,
) -> Roofline | None:
    """Returns the roofline of *flops* operations and the bytes of *traffic* by memory space, which took *span_ps*.

    *bandwidth_gbs* adds up all memories of a space, and *peak_flops* is the peak of the whole chip. Returns None for a
    run that took no time, and on a chip that states no limit.
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
