"""Probes: transfers between two nodes of an otherwise idle chip, and where their time goes.

A transfer takes the latency of every hop, once for its head, what the memory takes until its first byte (read) or
after its last one (write), its bytes at the narrowest place, and what other flows make it wait. The parts add up to
what the fabric's own simulation gives, which is the total.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.engine.engine import Engine
from kb_engine.probe.closed_form import Alone, Operation, Part, Phase, in_closed_form, link_ps, memory_gbs, parts, ways
from kb_messages import KbError, Rectangle
from kb_topology import Topology

__all__ = ["Flow", "Operation", "Part", "Phase", "Probe", "ProbeError", "probe"]


class ProbeError(KbError):
    """A transfer that cannot be probed."""


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
    alone = in_closed_form(topology, source, target, nbytes, chosen)
    bottleneck, gbs = _bottleneck(alone, engine, sources, target, nbytes)
    last = max(ends)
    return Probe(
        src=source,
        dst=target,
        operation=chosen,
        nbytes=nbytes,
        parts=tuple(parts(alone, ends[0], bottleneck)),
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
    """When each flow is done; all start at 0, without what a DMA takes before."""
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
        move(fabric.path(src, region.owner), Rectangle(region.base, 1, nbytes, nbytes), 0, done, number)
    engine.clock.drain()
    return ends


def _bottleneck(alone: Alone, engine: Engine, sources: list[str], dst: str, nbytes: int) -> tuple[str, float | None]:
    """What the flows hold longest, the memory before the links it feeds, and its GB/s."""
    held: Counter[str] = Counter()
    if alone.memory_ps:
        held[dst] = len(sources) * alone.memory_ps
    gbs: dict[str, float | None] = {dst: memory_gbs(engine, dst) if alone.memory_ps else None}
    for src in sources:
        away, back = ways(engine, src, dst, alone.operation)
        for link in back if alone.operation is Operation.READ else away:
            name = f"{link.src} -> {link.dst}"
            held[name] += link_ps(engine, link, nbytes)
            gbs[name] = float(link.bw_gbs)
    longest = max(held.values(), default=0)
    name = next((name for name, ps in held.items() if ps == longest), dst)
    return name, gbs[name]
