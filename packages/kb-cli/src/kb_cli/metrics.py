"""What a finished simulation amounts to: how busy its blocks were, and the bytes that moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from msgspec import Struct

from kb_cli.tally import PlanTally
from kb_engine.engine import Engine, LaunchResult
from kb_engine.roles import MemoryComponent
from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.stages import StageType
from kb_topology import NodeKind, exact

LINK = "link"
_CHANNELS = {StageType.DMA_READ: "_read", StageType.DMA_WRITE: "_write"}


class Use(Struct, frozen=True, kw_only=True):
    """How busy the blocks of one kind were, 0 to 1: the mean over `count` of them, and the busiest."""

    count: int
    mean: float
    busiest: float
    node: str


class Traffic(Struct, frozen=True, kw_only=True):
    """Bytes read from and written to a kind of memory."""

    read: int
    write: int


class Metrics(Struct, frozen=True, kw_only=True):
    """`uses` by kind of block, memory and link; `traffic`, `bandwidth_gbs` by memory space; `span_ps` of all launches.

    `reg` counts what passes between TCM and registers, so its bandwidth is that of the TCM ports.
    """

    span_ps: int
    uses: dict[str, Use]
    traffic: dict[str, Traffic]
    bandwidth_gbs: dict[str, float]
    tile_stages: int
    peak_flops: float | None


def measure(engine: Engine, launches: Iterable[LaunchResult], plans: PlanTally, dtype: object) -> Metrics:
    """The metrics of *engine* after *launches*; peak_flops is that for operands of *dtype*, if it is a DType."""
    span_ps = sum(launch.end_ps - launch.start_ps for launch in launches)
    return Metrics(
        span_ps=span_ps,
        uses=_uses(_busy_ps(engine), span_ps),
        traffic=_traffic(engine, plans),
        bandwidth_gbs=_bandwidths(engine),
        tile_stages=sum(server.served for server in engine.servers),
        peak_flops=_peak_flops(engine, dtype) if isinstance(dtype, DType) else None,
    )


def _busy_ps(engine: Engine) -> Iterator[tuple[str, str, int]]:
    """(kind, node, picoseconds in service) of every block that serves. A kind's DMA channels count apart.

    A TCM's use is that of its DMA port, and is left out where nothing came that way.
    """
    nodes = engine.topology.graph.nodes
    for component in engine.components.values():
        kind = nodes[component.node_id].kind.value
        if isinstance(component, MemoryComponent) and (component.busy_ps or kind != NodeKind.PE_TCM.value):
            yield kind, component.node_id, component.busy_ps
        busy: dict[str, int] = {}
        for stage_type, server in component.servers.items():
            name = kind + _CHANNELS.get(stage_type, "")
            busy[name] = busy.get(name, 0) + server.busy_ps  # FETCH and STORE hold the one TCM port in turn
        for name, busy_ps in busy.items():
            yield name, component.node_id, busy_ps
    for link in engine.fabric.links:
        yield LINK, f"{link.link.src} -> {link.link.dst}", link.busy_ps


def _uses(busy: Iterable[tuple[str, str, int]], span_ps: int) -> dict[str, Use]:
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


def _traffic(engine: Engine, plans: PlanTally) -> dict[str, Traffic]:
    """Behind the fabric by the memories' own counters; registers, and the PE's end of its DMA, by the plans."""
    found: dict[str, list[int]] = {}
    for component in engine.components.values():
        memory = engine.topology.graph.nodes[component.node_id].memory
        if isinstance(component, MemoryComponent) and memory is not None:
            total = found.setdefault(memory.space.value, [0, 0])
            total[0] += component.read_nbytes
            total[1] += component.written_nbytes
    traffic = {space: Traffic(read=read, write=write) for space, (read, write) in found.items()}
    moved = plans.nbytes
    fetched, stored = moved[StageType.FETCH], moved[StageType.STORE]
    read, written = found.get("tcm", (0, 0))
    traffic["tcm"] = Traffic(
        read=read + fetched + moved[StageType.DMA_WRITE], write=written + moved[StageType.DMA_READ] + stored
    )
    traffic["reg"] = Traffic(read=stored, write=fetched)
    return traffic


def _bandwidths(engine: Engine) -> dict[str, float]:
    """GB/s of all memories of a space together, where the blocks state one."""
    found: dict[str, Fraction] = {}
    for component in engine.components.values():
        node = engine.topology.graph.nodes[component.node_id]
        bw_gbs: Any = getattr(component.spec, "bw_gbs", None)
        if bw_gbs is not None and node.memory is not None:
            space = "reg" if node.kind is NodeKind.PE_TCM else node.memory.space.value
            found[space] = found.get(space, Fraction(0)) + exact(bw_gbs)
    return {space: float(bw_gbs) for space, bw_gbs in found.items()}


def _peak_flops(engine: Engine, dtype: DType) -> float | None:
    peaks = []
    for component in engine.components.values():
        peak = getattr(component, "peak_flops", None)
        if peak is not None:
            try:
                peaks.append(float(peak(dtype)))
            except PlanError:  # this block takes no such operands, so it adds nothing
                continue
    return sum(peaks) if peaks else None
