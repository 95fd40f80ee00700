"""Closed form of one transfer on an idle chip: the time of each hop, of the memory and of the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from kb_engine.block.component import Context
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.engine.engine import Engine
from kb_engine.fabric.paths import MemoryPath
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import Rate
from kb_messages import Rectangle
from kb_topology import Link, Topology


def idle_read_ps(block: Any, base: int, nbytes: int) -> tuple[int, int]:
    """Picoseconds of a read of *nbytes* at address *base*: until its first byte, and from the first to the last byte.

    A new block with the Spec of *block* serves the read at time 0.
    """
    context = block.context
    idle = type(block)(block.spec, Context(block.node_id, Clock(), context.fabric, context.memory_nbytes))
    first, last = idle.reserve(0, Rectangle(base, 1, nbytes, nbytes), 0, False)
    return first, last - first


_MANY_BYTES: Final = 1 << 20


class Operation(StrEnum):
    """The probed operation: a DMA's read or write of a memory, or a message to any node."""

    READ = "read"
    WRITE = "write"
    SEND = "send"


class Phase(StrEnum):
    """The cause of a part of the latency."""

    REQUEST = "request"
    MEMORY = "memory"
    DATA = "data"
    BYTES = "bytes"
    FULL_BUFFERS = "full buffers"
    OTHER_FLOWS = "other flows"
    ACKNOWLEDGE = "acknowledge"


class LatencyPart(Struct, frozen=True, kw_only=True):
    """Picoseconds at `node`. A part on a link lasts until the head has passed the node behind the link."""

    phase: Phase
    node: str
    latency_ps: int


class MemoryTimes(NamedTuple):
    """Picoseconds of an idle memory: to the first byte of a read, for all bytes, and after the last byte of a write."""

    first_byte: int = 0
    all_bytes: int = 0
    after: int = 0


class ClosedForm(Struct, frozen=True, kw_only=True):
    """One transfer in closed form. The bytes hold `narrowest`, a link or memory, longest: `bytes_ps` picoseconds."""

    operation: Operation
    request: tuple[Link, ...]
    data: tuple[Link, ...]
    acknowledge: tuple[Link, ...]
    memory: str
    memory_ps: MemoryTimes
    bytes_ps: int
    narrowest: str
    overhead_ps: dict[str, int]

    @property
    def total_ps(self) -> int:
        """The latency of the transfer."""
        return sum(part.latency_ps for part in self.parts())

    def parts(self) -> Iterator[LatencyPart]:
        """The parts of the latency, in the order in which the transfer passes the nodes."""
        yield from self._hops(Phase.REQUEST, self.request)
        if self.operation is Operation.READ:
            yield LatencyPart(phase=Phase.MEMORY, node=self.memory, latency_ps=self.memory_ps.first_byte)
        yield from self._hops(Phase.DATA, self.data)
        yield LatencyPart(phase=Phase.BYTES, node=self.narrowest, latency_ps=self.bytes_ps)
        if self.operation is Operation.WRITE:
            yield LatencyPart(phase=Phase.MEMORY, node=self.memory, latency_ps=self.memory_ps.after)
        yield from self._hops(Phase.ACKNOWLEDGE, self.acknowledge)

    def _hops(self, phase: Phase, links: tuple[Link, ...]) -> Iterator[LatencyPart]:
        for link in links:
            if link.is_port:  # a port adds no latency
                continue
            yield LatencyPart(phase=phase, node=link.dst, latency_ps=link.latency_ps + self.overhead_ps[link.dst])


def in_closed_form(topology: Topology, src: str, dst: str, nbytes: int, operation: Operation) -> ClosedForm:
    """The closed form of a transfer of *nbytes* from node *src* to node *dst*, alone on a new chip."""
    engine = Engine(topology)
    away, back = ways(engine, src, dst, operation)
    data = back if operation is Operation.READ else away
    on_links = {name_of(link): link_ps(link, engine.fabric.on_links(nbytes)) for link in data}
    slowest = max(on_links.values(), default=0)
    memory = MemoryTimes()
    if operation is not Operation.SEND:
        path = engine.fabric.path(src, engine.topology.address_map.region_of_node(dst).owner)
        memory = _memory_times(engine, path, dst, nbytes, slowest, operation)
    at_memory = operation is Operation.READ and memory.all_bytes >= slowest
    return ClosedForm(
        operation=operation,
        request=away if operation is Operation.READ else (),
        data=data,
        acknowledge=back if operation is Operation.WRITE else (),
        memory=dst,
        memory_ps=memory,
        bytes_ps=memory.all_bytes if at_memory else slowest,
        narrowest=dst if at_memory else next((name for name, ps in on_links.items() if ps == slowest), dst),
        overhead_ps={link.dst: engine.fabric.overhead_ps(link.dst) for link in (*away, *back)},
    )


def ways(engine: Engine, src: str, dst: str, operation: Operation) -> tuple[tuple[Link, ...], tuple[Link, ...]]:
    """The links away and back. A message has no links back; a DMA reaches the TCM of its PE without links."""
    if operation is Operation.SEND:
        return engine.fabric.route(src, dst).links, ()
    path = engine.fabric.path(src, engine.topology.address_map.region_of_node(dst).owner)
    return path.away.links, path.back.links


def link_ps(link: Link, nbytes: int) -> int:
    """Picoseconds of *nbytes* on *link*."""
    return Rate.from_gbs(link.bw_gbs).ps(nbytes)


def name_of(link: Link) -> str:
    """The name of *link* in a sentence."""
    return f"the port of {link.src}" if link.is_port else f"{link.src} -> {link.dst}"


def memory_gbs(engine: Engine, memory_id: str) -> float:
    """The bandwidth of an idle memory, in GB/s. A MiB is read, so that rounding does not show."""
    region = engine.topology.address_map.region_of_node(memory_id)
    nbytes = min(_MANY_BYTES, region.nbytes)
    _, taken_ps = idle_read_ps(engine.components[memory_id], region.base, nbytes)
    return nbytes * 1000 / max(1, taken_ps)


def _memory_times(
    engine: Engine, path: MemoryPath, dst: str, nbytes: int, slowest: int, operation: Operation
) -> MemoryTimes:
    """The times of the memory *dst*. The bytes of a write come in within *slowest* picoseconds."""
    region = engine.topology.address_map.region_of_node(dst)
    block: MemoryComponent[Any] = path.memory
    memory = Rectangle(region.base, 1, nbytes, nbytes)
    if operation is Operation.READ:
        first, last = block.reserve(path.request_ps, memory, path.request_ps, False)
        return MemoryTimes(first_byte=first - path.request_ps, all_bytes=last - first)
    head = path.away.latency_ps
    _, committed = block.reserve(head, memory, head + slowest, True)
    _, all_bytes = idle_read_ps(block, region.base, nbytes)
    return MemoryTimes(all_bytes=all_bytes, after=committed - head - slowest)
