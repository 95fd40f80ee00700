"""Probes: transfers between two nodes of an otherwise idle chip, and the parts of their latency.

The latency of a transfer is the latency of every hop, once, for its head; the time of the memory before the first byte
(read) or after the last byte (write); the time of the bytes at the narrowest place; the wait for room in buffers that
the transfer fills by itself; and the wait for other flows. The parts add up to the total, which comes from the
simulation of the fabric.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.engine.engine import Engine
from kb_engine.probe.closed_form import (
    ClosedForm,
    LatencyPart,
    Operation,
    Phase,
    in_closed_form,
    link_ps,
    memory_gbs,
    name_of,
    ways,
)
from kb_messages import KbError, Rectangle
from kb_topology import Topology

_GRANULE_NBYTES: Final = 256
"""Flows share no burst and no cache line of a memory. Source: assumed (bursts and lines have up to 128 bytes)."""


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


class ProbeError(KbError):
    """A transfer that cannot be probed."""


def source_node(engine: Engine, name: str) -> str:
    """The node at which a probe from *name* starts. A PE stands for its DMA.

    Raises ProbeError for a PE without exactly one DMA, TopologyError for a missing node.
    """
    found = _full_name(engine, name)
    if found not in engine.pes:
        return engine.topology.graph.node(found).id
    nodes = engine.topology.graph.pe_nodes(found)
    dmas = [node.id for node in nodes if isinstance(engine.components[node.id], Initiator)]
    if len(dmas) != 1:
        raise ProbeError(found, f"{len(dmas)} DMAs", "one", "name the node that the probe starts at")
    return dmas[0]


def target_node(engine: Engine, name: str) -> str:
    """The node at which a probe to *name* ends. A PE stands for its TCM. Raises TopologyError for a missing node."""
    found = _full_name(engine, name)
    if found not in engine.pes:
        return engine.topology.graph.node(found).id
    owner = engine.pes[found].tcm_owner
    return next(region.node_id for region in engine.topology.address_map.regions if region.owner == owner)


def checked_operation(engine: Engine, src: str, dst: str, nbytes: int, asked: Operation | None) -> Operation:
    """The operation of a probe; without *asked*, a DMA reads a memory, and any other probe is a message.

    Raises ProbeError for a read or write of a node without memory, and for more bytes than the memory has.
    """
    to_memory = isinstance(engine.components[dst], MemoryComponent)
    if asked is None:
        reads = to_memory and isinstance(engine.components[src], Initiator)
        asked = Operation.READ if reads else Operation.SEND
    if asked is not Operation.SEND and not to_memory:
        raise ProbeError(f"{src} -> {dst}", f"a {asked} of a node without memory", "a memory", "use --op send")
    if nbytes < 0:
        raise ProbeError("--nbytes", str(nbytes), "0 or more")
    if asked is not Operation.SEND:
        room = engine.topology.address_map.region_of_node(dst).nbytes
        if nbytes > room:
            raise ProbeError("--nbytes", str(nbytes), f"at most the {room} bytes of {dst}")
    return asked


def checked_stride(engine: Engine, dst: str, nbytes: int, flows: int, operation: Operation) -> int:
    """The bytes from the first byte of a flow in the memory *dst* to that of the next flow; 0 for messages.

    Raises ProbeError for flows whose bytes do not fit the memory together.
    """
    if operation is Operation.SEND or not nbytes:
        return 0
    stride = -(-nbytes // _GRANULE_NBYTES) * _GRANULE_NBYTES
    room = engine.topology.address_map.region_of_node(dst).nbytes
    if (flows - 1) * stride + nbytes > room:
        got = f"{nbytes} for each of {flows} flows, which have bytes of their own"
        raise ProbeError("--nbytes", got, f"at most the {room} bytes of {dst} together")
    return stride


def flow_sources(engine: Engine, src: str, dst: str, flows: int) -> list[str]:
    """The source of each flow: the DMAs from *src* on, in the topology's order, or *src* for all if it is no DMA.

    No flow but the first of a DMA to itself starts at *dst*. Raises ProbeError for more flows than DMAs.
    """
    if not isinstance(engine.components[src], Initiator):
        return [src] * flows
    every = [node_id for node_id, block in engine.components.items() if isinstance(block, Initiator)]
    dmas = [node_id for node_id in every if node_id != dst or node_id == src]
    if flows > len(dmas):
        raise ProbeError("--flows", str(flows), f"at most {len(dmas)}, one for each DMA")
    at = dmas.index(src)
    return [*dmas[at:], *dmas[:at]][:flows]


def _full_name(engine: Engine, name: str) -> str:
    """The full name of *name*, which may leave out `sip0.cube0.`."""
    known = name in engine.topology.graph.nodes or name in engine.pes
    return name if known or name.startswith("sip") else f"sip0.cube0.{name}"
