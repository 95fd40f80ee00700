"""Probes: transfers between two nodes of an otherwise idle chip, and the parts of their latency.

The latency of a transfer is the latency of every hop, once, for its head; the time of the memory before the first byte
(read) or after the last byte (write); the time of the bytes at the narrowest place; the wait for room in buffers that
the transfer fills by itself; and the wait for other flows. The parts add up to the total, which comes from the
simulation of the fabric.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from kb_engine.engine.engine import Engine
from kb_engine.probe.closed_form import (
    ClosedForm,
    LatencyPart,
    Phase,
    in_closed_form,
    link_ps,
    memory_gbs,
    name_of,
    ways,
)
from kb_engine.probe.endpoints import (
    Operation,
    checked_operation,
    checked_stride,
    flow_sources,
    source_node,
    target_node,
)
from kb_messages import Rectangle
from kb_topology import Topology


class ProbedFlow(Struct, frozen=True, kw_only=True):
    """One of the transfers: its source, and its latency in picoseconds."""

    src: str
    latency_ps: int


class Probe(Struct, frozen=True, kw_only=True):
    """The result of a probe. `parts` belong to the first flow and add up to its latency, `latency_ps`.

    `bandwidth_gbs` is the bytes of all flows over the time of the last flow. `bottleneck` is the link (`a -> b`) or the
    memory that the flows hold longest, and `bottleneck_gbs` its bandwidth.
    """

    src: str
    dst: str
    operation: Operation
    nbytes: int
    parts: tuple[LatencyPart, ...]
    flows: tuple[ProbedFlow, ...]
    latency_ps: int
    bandwidth_gbs: float
    bottleneck: str
    bottleneck_gbs: float | None


def probe(
    topology: Topology, src: str, dst: str, nbytes: int, flows: int = 1, operation: Operation | None = None
) -> Probe:
    """Simulates *flows* transfers of *nbytes* between *src* and *dst*, all at once.

    A PE as *src* stands for its DMA, and as *dst* for its TCM; `sip0.cube0.` may be left out. A DMA moves one transfer
    at a time in each direction, so further flows come from the next DMAs in the topology's order. Any other node sends
    all flows itself. Without *operation*, a DMA reads a memory, and any other probe is a message.

    Each flow has bytes of its own in the memory, one range after the other, so that no cache and no multicast serves
    two flows by one read.

    Raises ProbeError for a transfer that is not possible, and TopologyError for missing nodes and paths.
    """
    engine = Engine(topology)
    source, target = source_node(engine, src), target_node(engine, dst)
    chosen = checked_operation(engine, source, target, nbytes, operation)
    sources = flow_sources(engine, source, target, flows)
    stride = checked_stride(engine, target, nbytes, flows, chosen)
    ends = _simulate(engine, sources, target, nbytes, chosen, stride)
    alone = in_closed_form(topology, source, target, nbytes, chosen)
    alone_ps = alone.total_ps
    if not engine.fabric.is_foreseen:  # full buffers can delay one flow alone, too
        alone_ps = _simulate(Engine(topology), [source], target, nbytes, chosen)[0]
    bottleneck, gbs = _bottleneck(alone, engine, sources, target, nbytes)
    last = max(ends)
    return Probe(
        src=source,
        dst=target,
        operation=chosen,
        nbytes=nbytes,
        parts=_parts(alone, alone_ps, ends[0], bottleneck),
        flows=tuple(ProbedFlow(src=each, latency_ps=end) for each, end in zip(sources, ends, strict=True)),
        latency_ps=ends[0],
        bandwidth_gbs=flows * nbytes * 1000 / last if last else 0.0,
        bottleneck=bottleneck,
        bottleneck_gbs=gbs,
    )


def _simulate(
    engine: Engine, sources: list[str], dst: str, nbytes: int, operation: Operation, stride: int = 0
) -> list[int]:
    """The end of each flow in ps. All flows start at 0, without the setup time of a DMA, with bytes *stride* apart."""
    fabric, ends = engine.fabric, [0] * len(sources)
    fabric.wait_for_requests()

    def done(number: int) -> None:
        ends[number] = engine.clock.now_ps

    for number, src in enumerate(sources):
        if operation is Operation.SEND:
            fabric.send(src, dst, nbytes, 0, done, number)
            continue
        region = engine.topology.address_map.region_of_node(dst)
        move = fabric.read if operation is Operation.READ else fabric.write
        memory = Rectangle(region.base + number * stride, 1, nbytes, nbytes)
        move(fabric.path(src, region.owner), memory, 0, done, number)
    engine.clock.drain()
    return ends


def _parts(alone: ClosedForm, alone_ps: int, end_ps: int, bottleneck: str) -> tuple[LatencyPart, ...]:
    """The parts of the latency of the first flow, which ended at *end_ps*, and alone would end at *alone_ps*.

    The time alone beyond the closed form is the wait for full buffers; the rest is the wait for other flows.
    """
    waits = {Phase.FULL_BUFFERS: alone_ps - alone.total_ps, Phase.OTHER_FLOWS: end_ps - alone_ps}
    waited = (LatencyPart(phase=phase, node=bottleneck, latency_ps=ps) for phase, ps in waits.items() if ps)
    return (*alone.parts(), *waited)


def _bottleneck(
    alone: ClosedForm, engine: Engine, sources: list[str], dst: str, nbytes: int
) -> tuple[str, float | None]:
    """The link or memory that the flows hold longest, and its GB/s. In a tie, the memory comes first."""
    held: Counter[str] = Counter()
    if alone.memory_ps.all_bytes:
        held[dst] = len(sources) * alone.memory_ps.all_bytes
    gbs: dict[str, float | None] = {dst: memory_gbs(engine, dst) if alone.memory_ps.all_bytes else None}
    for src in sources:
        away, back = ways(engine, src, dst, alone.operation)
        for link in back if alone.operation is Operation.READ else away:
            name = name_of(link)
            held[name] += link_ps(link, engine.fabric.on_links(nbytes))
            gbs[name] = float(link.bw_gbs)
    longest = max(held.values(), default=0)
    name = next((name for name, ps in held.items() if ps == longest), dst)
    return name, gbs[name]
