"""Endpoints of probes: the nodes at which a probe starts and ends, and checks of its arguments."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.engine.engine import Engine
from kb_messages import KbError

_GRANULE_NBYTES: Final = 256
"""Flows share no burst and no cache line of a memory. Source: assumed (bursts and lines have up to 128 bytes)."""


class Operation(StrEnum):
    """The probed operation: a DMA's read or write of a memory, or a message to any node."""

    READ = "read"
    WRITE = "write"
    SEND = "send"


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
