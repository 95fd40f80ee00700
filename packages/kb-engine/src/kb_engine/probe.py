"""Probes: transfers between two nodes of an otherwise idle chip, and where their time goes.

A transfer takes the latency of every hop, once for its head, what the memory takes until its first byte (read) or
after its last one (write), its bytes at the narrowest place, and what other flows make it wait. The parts add up to
what the fabric's own simulation gives, which is the total.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from kb_engine.clock import Clock
from kb_engine.component import Context
from kb_engine.engine import Engine
from kb_engine.links import Path
from kb_engine.roles import ForwardingComponent, Initiator, MemoryComponent
from kb_messages.errors import KbError
from kb_messages.stages import Rectangle
from kb_topology import Link, Topology

_MANY_BYTES: Final = 1 << 20


class ProbeError(KbError):
    """A transfer that cannot be probed."""


class Operation(StrEnum):
    """What is probed: a DMA's read or write of a memory, or a message to any node."""

    READ = "read"
    WRITE = "write"
    SEND = "send"


class Phase(StrEnum):
    """What a part of the time belongs to."""

    REQUEST = "request"
    MEMORY = "memory"
    DATA = "data"
    BYTES = "bytes"
    OTHER_FLOWS = "other flows"
    ACKNOWLEDGE = "acknowledge"


class Part(Struct, frozen=True, kw_only=True):
    """Picoseconds spent at `node`; on a link, until the head is past the node behind it."""

    phase: Phase
    node: str
    latency_ps: int


class Flow(Struct, frozen=True, kw_only=True):
    """One of the transfers: from `src`, done after `latency_ps`."""

    src: str
    latency_ps: int


class Probe(Struct, frozen=True, kw_only=True):
    """What was measured. `parts` are of the first flow and add up to its latency.

    `bandwidth_gbs` is all flows' bytes over the time of the last of them; `bottleneck` is the link (`a -> b`) or memory
    that the flows hold longest, which has `bottleneck_gbs`.
    """

    src: str
    dst: str
    operation: Operation
    nbytes: int
    parts: tuple[Part, ...]
    flows: tuple[Flow, ...]
    latency_ps: int
    bandwidth_gbs: float
    bottleneck: str
    bottleneck_gbs: float | None


def probe(
    topology: Topology, src: str, dst: str, nbytes: int, flows: int = 1, operation: Operation | None = None
) -> Probe:
    """Send *nbytes* between *src* and *dst*, *flows* times at once.

    A PE stands for its DMA as *src*, and for its TCM as *dst*; `sip0.cube0.` may be left out. A DMA moves one transfer
    at a time each way, so more flows come from the DMAs that follow it in the topology; any other node sends them all.
    Without *operation*, a DMA reads a memory, and all else is a message. Raises ProbeError for a transfer that
    cannot be, TopologyError for nodes that are not there or that no path joins.
    """
    engine = Engine(topology)
    source, target = _source(engine, src), _target(engine, dst)
    chosen = _operation(engine, source, target, operation)
    _check_size(engine, target, nbytes, chosen)
    sources = _sources(engine, source, target, flows)
    ends = _simulate(engine, sources, target, nbytes, chosen)
    alone = _alone(topology, source, target, nbytes, chosen)
    bottleneck, gbs = _bottleneck(alone, engine, sources, target, nbytes)
    parts = _parts(alone, ends[0], bottleneck)
    last = max(ends)
    return Probe(
        src=source,
        dst=target,
        operation=chosen,
        nbytes=nbytes,
        parts=tuple(parts),
        flows=tuple(Flow(src=each, latency_ps=end) for each, end in zip(sources, ends, strict=True)),
        latency_ps=ends[0],
        bandwidth_gbs=flows * nbytes * 1000 / last if last else 0.0,
        bottleneck=bottleneck,
        bottleneck_gbs=gbs,
    )


def _source(engine: Engine, name: str) -> str:
    """The node a probe starts at."""
    found = _named(engine, name)
    if found not in engine.pes:
        return engine.topology.graph.node(found).id
    nodes = engine.topology.graph.pe_nodes(found)
    dmas = [node.id for node in nodes if isinstance(engine.components[node.id], Initiator)]
    if len(dmas) != 1:
        raise ProbeError(found, f"{len(dmas)} DMAs", "one", "name the node that the probe starts at")
    return dmas[0]


def _target(engine: Engine, name: str) -> str:
    found = _named(engine, name)
    if found not in engine.pes:
        return engine.topology.graph.node(found).id
    owner = engine.pes[found].tcm_owner
    return next(region.node_id for region in engine.topology.address_map.regions if region.owner == owner)


def _named(engine: Engine, name: str) -> str:
    """*name*, in cube 0 of SIP 0 where it says no more than what stands there."""
    known = name in engine.topology.graph.nodes or name in engine.pes
    return name if known or name.startswith("sip") else f"sip0.cube0.{name}"


def _operation(engine: Engine, src: str, dst: str, asked: Operation | None) -> Operation:
    from_dma = isinstance(engine.components[src], Initiator)
    to_memory = isinstance(engine.components[dst], MemoryComponent)
    if asked is None:
        return Operation.READ if from_dma and to_memory else Operation.SEND
    if asked is not Operation.SEND and not to_memory:
        raise ProbeError(f"{src} -> {dst}", f"a {asked} of a node without memory", "a memory", "use --op send")
    return asked


def _check_size(engine: Engine, dst: str, nbytes: int, operation: Operation) -> None:
    if nbytes < 0:
        raise ProbeError("--nbytes", str(nbytes), "0 or more")
    if operation is Operation.SEND:
        return
    room = engine.topology.address_map.region_of_node(dst).nbytes
    if nbytes > room:
        raise ProbeError("--nbytes", str(nbytes), f"at most the {room} bytes of {dst}")


def _sources(engine: Engine, src: str, dst: str, flows: int) -> list[str]:
    """Where the flows start: all at *src*, or at as many DMAs from *src* on, in the topology's order."""
    if not isinstance(engine.components[src], Initiator):
        return [src] * flows
    dmas = [node_id for node_id, block in engine.components.items() if isinstance(block, Initiator) and node_id != dst]
    if flows > len(dmas):
        raise ProbeError("--flows", str(flows), f"at most {len(dmas)}, one for each DMA")
    at = dmas.index(src)
    return [*dmas[at:], *dmas[:at]][:flows]


def _simulate(engine: Engine, sources: list[str], dst: str, nbytes: int, operation: Operation) -> list[int]:
    """When each flow is done; all start at 0."""
    fabric, ends = engine.fabric, [0] * len(sources)

    def done(number: int) -> None:
        ends[number] = engine.clock._now

    for number, src in enumerate(sources):
        if operation is Operation.SEND:
            fabric.send(src, dst, nbytes, 0, done, number)
            continue
        region = engine.topology.address_map.region_of_node(dst)
        move = fabric.read if operation is Operation.READ else fabric.write
        move(fabric.path(src, region.owner), Rectangle(region.base, 1, nbytes, nbytes), 0, done, number)
    engine.clock.drain()
    return ends


class _Alone(Struct, frozen=True, kw_only=True):
    """One flow in closed form. `after_ps` is what a write's memory takes behind its last byte."""

    operation: Operation
    request: tuple[Link, ...]
    data: tuple[Link, ...]
    acknowledge: tuple[Link, ...]
    first_byte_ps: int
    memory_ps: int
    bytes_ps: int
    after_ps: int
    memory: str
    narrowest: str
    overhead_ps: dict[str, int]

    @property
    def total_ps(self) -> int:
        hops = (*self.request, *self.data, *self.acknowledge)
        latency = sum(link.latency_ps + self.overhead_ps[link.dst] for link in hops)
        return latency + self.first_byte_ps + self.bytes_ps + self.after_ps


def _alone(topology: Topology, src: str, dst: str, nbytes: int, operation: Operation) -> _Alone:
    engine = Engine(topology)
    away, back = _ways(engine, src, dst, operation)
    data = back if operation is Operation.READ else away
    on_links = [(f"{link.src} -> {link.dst}", _link_ps(engine, link, nbytes)) for link in data]
    slowest = max((each[1] for each in on_links), default=0)
    first = memory = after = 0
    if operation is not Operation.SEND:
        path = engine.fabric.path(src, engine.topology.address_map.region_of_node(dst).owner)
        first, memory, after = _memory_ps(engine, path, dst, nbytes, slowest, operation)
    bytes_ps = slowest if operation is Operation.WRITE else max(slowest, memory)
    at_memory = operation is Operation.READ and memory >= slowest
    narrowest = dst if at_memory else next((name for name, ps in on_links if ps == slowest), dst)
    return _Alone(
        operation=operation,
        request=away if operation is Operation.READ else (),
        data=data,
        acknowledge=back if operation is Operation.WRITE else (),
        first_byte_ps=first,
        memory_ps=memory,
        bytes_ps=bytes_ps,
        after_ps=after,
        memory=dst,
        narrowest=narrowest,
        overhead_ps={link.dst: _overhead_ps(engine, link.dst) for link in (*away, *back)},
    )


def _ways(engine: Engine, src: str, dst: str, operation: Operation) -> tuple[tuple[Link, ...], tuple[Link, ...]]:
    """The links away and back; none back for a message, and none at all to the TCM of the DMA's own PE."""
    if operation is Operation.SEND:
        return engine.fabric.route(src, dst).links, ()
    path = engine.fabric.path(src, engine.topology.address_map.region_of_node(dst).owner)
    return path.away.links, path.back.links


def _memory_ps(
    engine: Engine, path: Path, dst: str, nbytes: int, slowest: int, operation: Operation
) -> tuple[int, int, int]:
    """What an idle memory takes until its first byte, for its bytes, and (a write) after the last one came in."""
    region = engine.topology.address_map.region_of_node(dst)
    block: MemoryComponent[Any] = engine.components[dst]  # type: ignore[assignment]  # _operation has checked it
    memory = Rectangle(region.base, 1, nbytes, nbytes)
    if operation is Operation.READ:
        first, last = block.reserve(path.request_ps, memory, path.request_ps, False)
        return first - path.request_ps, last - first, 0
    head = path.away.latency_ps
    _, committed = block.reserve(head, memory, head + slowest, True)
    return 0, _bytes_ps(engine, dst, nbytes), committed - head - slowest


def _bytes_ps(engine: Engine, memory_id: str, nbytes: int) -> int:
    """How long an idle memory takes from the first to the last of *nbytes*."""
    region = engine.topology.address_map.region_of_node(memory_id)
    block: Any = engine.components[memory_id]
    idle = type(block)(block.spec, Context(memory_id, Clock(), engine.fabric, region.nbytes))
    first, last = idle.reserve(0, Rectangle(region.base, 1, nbytes, nbytes), 0, False)
    return int(last - first)


def _memory_gbs(engine: Engine, memory_id: str) -> float:
    """An idle memory's bandwidth over so many bytes that rounding does not show."""
    nbytes = min(_MANY_BYTES, engine.topology.address_map.region_of_node(memory_id).nbytes)
    return nbytes * 1000 / max(1, _bytes_ps(engine, memory_id, nbytes))


def _link_ps(engine: Engine, link: Link, nbytes: int) -> int:
    return engine.fabric.link(link.src, link.dst).rate.ps(nbytes)


def _overhead_ps(engine: Engine, node_id: str) -> int:
    block = engine.components[node_id]
    return block.overhead_ps() if isinstance(block, ForwardingComponent) else 0


def _parts(alone: _Alone, end_ps: int, bottleneck: str) -> list[Part]:
    """Where the first flow's time went, in the order in which it passes the nodes."""

    def hops(phase: Phase, links: tuple[Link, ...]) -> list[Part]:
        passed = [(link.dst, link.latency_ps + alone.overhead_ps[link.dst]) for link in links]
        return [Part(phase=phase, node=node, latency_ps=ps) for node, ps in passed]

    parts = hops(Phase.REQUEST, alone.request)
    if alone.operation is Operation.READ:
        parts.append(Part(phase=Phase.MEMORY, node=alone.memory, latency_ps=alone.first_byte_ps))
    parts += hops(Phase.DATA, alone.data)
    parts.append(Part(phase=Phase.BYTES, node=alone.narrowest, latency_ps=alone.bytes_ps))
    if alone.operation is Operation.WRITE:
        parts.append(Part(phase=Phase.MEMORY, node=alone.memory, latency_ps=alone.after_ps))
    parts += hops(Phase.ACKNOWLEDGE, alone.acknowledge)
    if end_ps != alone.total_ps:
        parts.append(Part(phase=Phase.OTHER_FLOWS, node=bottleneck, latency_ps=end_ps - alone.total_ps))
    return parts


def _bottleneck(alone: _Alone, engine: Engine, sources: list[str], dst: str, nbytes: int) -> tuple[str, float | None]:
    """What the flows hold longest, the memory before the links it feeds, and its GB/s."""
    held: Counter[str] = Counter()
    if alone.memory_ps:
        held[dst] = len(sources) * alone.memory_ps
    gbs: dict[str, float | None] = {dst: _memory_gbs(engine, dst) if alone.memory_ps else None}
    for src in sources:
        away, back = _ways(engine, src, dst, alone.operation)
        for link in back if alone.operation is Operation.READ else away:
            name = f"{link.src} -> {link.dst}"
            held[name] += _link_ps(engine, link, nbytes)
            gbs[name] = float(link.bw_gbs)
    longest = max(held.values(), default=0)
    name = next((name for name, ps in held.items() if ps == longest), dst)
    return name, gbs[name]
