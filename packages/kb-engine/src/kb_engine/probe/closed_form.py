"""One transfer on an idle chip in closed form: what each hop, the memory and the bytes take."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from kb_engine.block.component import Context
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.engine.engine import Engine
from kb_engine.fabric.paths import MemoryPath
from kb_engine.timing.clock import Clock
from kb_messages import Rectangle
from kb_topology import Link, Topology

_MANY_BYTES: Final = 1 << 20


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


class Alone(Struct, frozen=True, kw_only=True):
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
        """All of it."""
        hops = (*self.request, *self.data, *self.acknowledge)
        latency = sum(link.latency_ps + self.overhead_ps[link.dst] for link in hops)
        return latency + self.first_byte_ps + self.bytes_ps + self.after_ps


def in_closed_form(topology: Topology, src: str, dst: str, nbytes: int, operation: Operation) -> Alone:
    """A transfer of *nbytes* between two nodes, alone on a chip that has done nothing yet."""
    engine = Engine(topology)
    away, back = ways(engine, src, dst, operation)
    data = back if operation is Operation.READ else away
    on_links = [(f"{link.src} -> {link.dst}", link_ps(engine, link, nbytes)) for link in data]
    slowest = max((each[1] for each in on_links), default=0)
    first = memory = after = 0
    if operation is not Operation.SEND:
        path = engine.fabric.path(src, engine.topology.address_map.region_of_node(dst).owner)
        first, memory, after = _memory_ps(engine, path, dst, nbytes, slowest, operation)
    bytes_ps = slowest if operation is Operation.WRITE else max(slowest, memory)
    at_memory = operation is Operation.READ and memory >= slowest
    narrowest = dst if at_memory else next((name for name, ps in on_links if ps == slowest), dst)
    return Alone(
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
        overhead_ps={link.dst: engine.fabric.overhead_ps(link.dst) for link in (*away, *back)},
    )


def ways(engine: Engine, src: str, dst: str, operation: Operation) -> tuple[tuple[Link, ...], tuple[Link, ...]]:
    """The links away and back; none back for a message, and none at all to the TCM of the DMA's own PE."""
    if operation is Operation.SEND:
        return engine.fabric.route(src, dst).links, ()
    path = engine.fabric.path(src, engine.topology.address_map.region_of_node(dst).owner)
    return path.away.links, path.back.links


def _memory_ps(
    engine: Engine, path: MemoryPath, dst: str, nbytes: int, slowest: int, operation: Operation
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


def memory_gbs(engine: Engine, memory_id: str) -> float:
    """An idle memory's bandwidth over so many bytes that rounding does not show."""
    nbytes = min(_MANY_BYTES, engine.topology.address_map.region_of_node(memory_id).nbytes)
    return nbytes * 1000 / max(1, _bytes_ps(engine, memory_id, nbytes))


def link_ps(engine: Engine, link: Link, nbytes: int) -> int:
    """What *nbytes* take on *link*."""
    return engine.fabric.link(link.src, link.dst).rate.ps(nbytes)


def parts(alone: Alone, end_ps: int, bottleneck: str) -> list[Part]:
    """Where the first flow's time went, in the order in which it passes the nodes."""

    def hops(phase: Phase, links: tuple[Link, ...]) -> list[Part]:
        passed = [(link.dst, link.latency_ps + alone.overhead_ps[link.dst]) for link in links]
        return [Part(phase=phase, node=node, latency_ps=ps) for node, ps in passed]

    found = hops(Phase.REQUEST, alone.request)
    if alone.operation is Operation.READ:
        found.append(Part(phase=Phase.MEMORY, node=alone.memory, latency_ps=alone.first_byte_ps))
    found += hops(Phase.DATA, alone.data)
    found.append(Part(phase=Phase.BYTES, node=alone.narrowest, latency_ps=alone.bytes_ps))
    if alone.operation is Operation.WRITE:
        found.append(Part(phase=Phase.MEMORY, node=alone.memory, latency_ps=alone.after_ps))
    found += hops(Phase.ACKNOWLEDGE, alone.acknowledge)
    if end_ps != alone.total_ps:
        found.append(Part(phase=Phase.OTHER_FLOWS, node=bottleneck, latency_ps=end_ps - alone.total_ps))
    return found
