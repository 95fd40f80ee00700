"""What a finished simulation amounts to: how busy its blocks were, and the bytes that moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from msgspec import Struct

from kb_cli.run.tally import PlanTally
from kb_engine import Engine, LaunchResult
from kb_engine.block import MemoryComponent
from kb_engine.observe import Chip, Observer
from kb_messages import DType, MemorySpace, PlanError, StageType
from kb_topology import NodeKind, exact

LINK = "link"
_SPACES = {f"bytes of {space.value}": space.value for space in MemorySpace}
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
    """`uses` by kind of block, memory and link; `traffic`, `bandwidth_gbs` by memory space.

    All of it is for `span_ps`, the time from the first kernel's start to the last one's end, of all launches together.

    `reg` counts what passes between TCM and registers, so its bandwidth is that of the TCM ports.
    """

    span_ps: int
    uses: dict[str, Use]
    traffic: dict[str, Traffic]
    bandwidth_gbs: dict[str, float]
    tile_stages: int
    peak_flops: float | None


class Usage(Observer):
    """What blocks and links did during launches. What they did for the host's own reads and writes does not count."""

    def __init__(self) -> None:
        self._in_launches: dict[tuple[str, str], tuple[int, ...]] = {}
        self._before: dict[tuple[str, str], tuple[int, ...]] = {}

    def on_built(self, chip: Chip) -> None:
        """Look up the blocks."""
        self._chip = chip

    def on_launch(self) -> None:
        """Keep the counts before the launch."""
        self._before = self._counts()

    def on_launched(self) -> None:
        """Add the counts of the launch."""
        for key, now in self._counts().items():
            none = (0,) * len(now)
            totals = zip(self._in_launches.get(key, none), now, self._before.get(key, none), strict=True)
            self._in_launches[key] = tuple(total + after - first for total, after, first in totals)

    @property
    def busy_ps(self) -> Iterator[tuple[str, str, int]]:
        """(kind, node, picoseconds in service) of every block that serves. A kind's DMA channels count apart."""
        return ((kind, node, counts[0]) for (kind, node), counts in self._in_launches.items() if kind not in _SPACES)

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes by memory space, of the memories behind the fabric."""
        found: dict[str, list[int]] = {}
        for (kind, _), counts in self._in_launches.items():
            if kind in _SPACES:
                total = found.setdefault(_SPACES[kind], [0, 0])
                total[0] += counts[0]
                total[1] += counts[1]
        return {space: Traffic(read=read, write=write) for space, (read, write) in found.items()}

    def _counts(self) -> dict[tuple[str, str], tuple[int, ...]]:
        counts: dict[tuple[str, str], tuple[int, ...]] = {
            (kind, node): (busy_ps,) for kind, node, busy_ps in _busy_ps(self._chip)
        }
        for component in self._chip.components.values():
            memory = self._chip.topology.graph.nodes[component.node_id].memory
            if isinstance(component, MemoryComponent) and memory is not None:
                key = f"bytes of {memory.space.value}", component.node_id
                counts[key] = component.read_nbytes, component.written_nbytes
        return counts


def measure(engine: Engine, launches: Iterable[LaunchResult], plans: PlanTally, dtype: object, usage: Usage) -> Metrics:
    """The metrics of *launches*; peak_flops is that for operands of *dtype*, if it is a DType."""
    span_ps = sum(launch.end_ps - launch.start_ps for launch in launches)
    return Metrics(
        span_ps=span_ps,
        uses=_uses(usage.busy_ps, span_ps),
        traffic=_traffic(usage, plans),
        bandwidth_gbs=_bandwidths(engine),
        tile_stages=sum(server.served for server in engine.servers),
        peak_flops=_peak_flops(engine, dtype) if isinstance(dtype, DType) else None,
    )


def _busy_ps(chip: Chip) -> Iterator[tuple[str, str, int]]:
    """(kind, node, picoseconds in service) of every block that serves. A kind's DMA channels count apart.

    A TCM's use is that of its DMA port, and is left out where nothing came that way.
    """
    nodes = chip.topology.graph.nodes
    for component in chip.components.values():
        kind = nodes[component.node_id].kind.value
        if isinstance(component, MemoryComponent) and (component.busy_ps or kind != NodeKind.PE_TCM.value):
            yield kind, component.node_id, component.busy_ps
        busy: dict[str, int] = {}
        for stage_type, server in component.servers.items():
            name = kind + _CHANNELS.get(stage_type, "")
            busy[name] = busy.get(name, 0) + server.busy_ps  # FETCH and STORE hold the one TCM port in turn
        for name, busy_ps in busy.items():
            yield name, component.node_id, busy_ps
    for link in chip.fabric.links:
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


def _traffic(usage: Usage, plans: PlanTally) -> dict[str, Traffic]:
    """Behind the fabric by the memories' own counters; TCM and registers by the plans."""
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
