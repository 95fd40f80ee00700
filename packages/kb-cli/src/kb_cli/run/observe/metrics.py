"""Figures of a finished simulation: utilization, traffic, limits of the chip, and roofs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from kb_cli.run.base.result import ChosenTile, Roof, Traffic, Unwritten
from kb_cli.run.observe.kernel_time import kernel_ps
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.roofs import roofs_of, unwritten_of
from kb_cli.run.observe.usage import Usage
from kb_cli.terminal.units import PS_PER_NS
from kb_engine import Engine, LaunchResult
from kb_engine.block import MemoryComponent
from kb_messages import DType, MathParams, PlanError, StageType
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
    picoseconds; time in which several launches of streams run counts once. All other figures cover that time. `reg`
    counts bytes between TCM and registers, so its bandwidth is that of the TCM ports. `peak_flops` is None when no
    block states a peak. `unwritten` is None when no cache holds bytes to be written.
    """

    span_ps: int
    uses: dict[str, Use]
    traffic: dict[str, Traffic]
    bandwidth_gbs: dict[str, float]
    tile_stages: int
    peak_flops: float | None
    chosen_tiles: list[ChosenTile] = []
    gemm_flops: int = 0
    roofs: list[Roof] = []
    unwritten: Unwritten | None = None


def measure(engine: Engine, launches: Sequence[LaunchResult], plans: PlanTally, dtype: object, usage: Usage) -> Metrics:
    """Returns the metrics of *launches*. `peak_flops` is for operands of *dtype*, and None unless it names a DType."""
    span_ps = kernel_ps(launches)
    return Metrics(
        span_ps=span_ps,
        uses=uses_of(usage.busy_ps, span_ps),
        traffic=_traffic(usage, plans),
        bandwidth_gbs=_bandwidths(engine),
        tile_stages=plans.n_stages,
        peak_flops=peak_flops(engine, DType(dtype)) if isinstance(dtype, str) and dtype in set(DType) else None,
        chosen_tiles=plans.chosen_tiles,
        gemm_flops=2 * plans.macs,
        roofs=roofs_of(engine, launches, plans, usage),
        unwritten=unwritten_of(launches, usage),
    )


def uses_of(busy: Iterable[tuple[str, str, int]], span_ps: int) -> dict[str, Use]:
    """Returns the utilization of each kind of block over *span_ps*, from (kind, node, picoseconds in service).

    A block whose services overlap, and count each, is busy all the time at most.
    """
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for kind, node, busy_ps in busy:
        by_kind.setdefault(kind, []).append((busy_ps, node))
    uses = {}
    for kind, blocks in by_kind.items():
        top_ps, top = max(blocks, key=lambda block: block[0])
        total_ps = sum(busy_ps for busy_ps, _ in blocks)
        uses[kind] = Use(
            count=len(blocks),
            mean=min(1.0, total_ps / (len(blocks) * span_ps)) if span_ps else 0.0,
            busiest=min(1.0, top_ps / span_ps) if span_ps else 0.0,
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
    """Returns the GB/s of all memories of a space together, and of all caches, for blocks that state a bandwidth."""
    found: dict[str, Fraction] = {}
    for component in engine.components.values():
        node = engine.topology.graph.nodes[component.node_id]
        bw_gbs: Any = getattr(component.spec, "bw_gbs", None)
        if node.memory is None or not isinstance(component, MemoryComponent):
            continue
        if node.kind is NodeKind.PE_TCM:
            if bw_gbs is not None:
                found["reg"] = found.get("reg", Fraction(0)) + exact(bw_gbs)
            continue
        for part in component.parts:
            if part.ps_each is not None:
                kind = f"{node.memory.space.value} {part.name}".strip()
                found[kind] = found.get(kind, Fraction(0)) + PS_PER_NS / part.ps_each
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


def math_flops(engine: Engine) -> float | None:
    """Returns the elements a second of an elementwise function that all math units compute together; None when no
    block states a full rate.
    """
    one = MathParams(op="add", rows=1, cols=1, dtype=DType.F32)
    units = (each for each in engine.components.values() if StageType.MATH in each.serves)
    rates = [1e12 / float(ps) for ps in (unit.least_ps(StageType.MATH, one) for unit in units) if ps]
    return sum(rates) if rates else None
