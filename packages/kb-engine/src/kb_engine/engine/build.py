"""Builds a chip from a topology: makes every block, wires the blocks, and connects the observers.

Design: docs/design/architecture.md
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Literal, NamedTuple, TypeAlias

from kb_dataexec import LogWriter, MemoryStore
from kb_engine.block.block_directory import BlockDirectory
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.engine.chips import watched_chip
from kb_engine.engine.registry import Registry
from kb_engine.fabric.transfer_rows import TransferRows
from kb_engine.launch.host_calls import HostCalls, PeMessages
from kb_engine.launch.host_path_check import find_host
from kb_engine.launch.launch import Launch
from kb_engine.launch.pe_turns import PeTurns
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Listeners, Observer, listener
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.tracer import Tracer
from kb_engine.program.materialize import Materializer, without_log
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.session import Session
from kb_topology import Node, NodeKind, Topology

Exactness: TypeAlias = Literal["isolated", "events", "check"]
"""The choices of how much is simulated event by event. Engine explains them."""


class Built(NamedTuple):
    """A finished chip, its PEs and the session that runs programs on it. `launches` has the launches under way, and
    `turns` those of streams that have PEs or wait for them.
    """

    chip: Chip
    pes: dict[str, ProcessingElement]
    session: Session
    launches: dict[int, Launch]
    host_calls: HostCalls | None
    directory: BlockDirectory
    turns: PeTurns


def build(topology: Topology, registry: Registry, writer: LogWriter | None, observers: Sequence[Observer]) -> Built:
    """Builds everything that *topology* describes, watched by *observers*. With a *writer* there is an op log.

    Raises TopologyError when the topology names blocks that are not installed, or attributes that they do not take.
    """
    recorder = Recorder(writer, listener(observers, "on_chunk")) if writer is not None else None
    on_trace = listener(observers, "on_trace")
    tracer = Tracer(on_trace) if on_trace is not None else None
    listeners = Listeners([each for each in (recorder, tracer, *observers) if each is not None])
    directory = BlockDirectory(recorder.message_arrived if recorder is not None else None)
    rows = TransferRows(recorder.transfers, recorder.number_of) if recorder is not None else None
    chip = watched_chip(topology, registry, directory, listeners, (tracer, rows))
    regions = (*topology.address_map.regions, *topology.address_map.interleaved.values())
    burst_nbytes = lcm(*(each.burst_nbytes for each in chip.components.values() if isinstance(each, MemoryComponent)))
    store = MemoryStore((region.owner, region.nbytes, region.node_id) for region in regions)
    memory = DeviceMemory(store, burst_nbytes)
    pes = {pe_id: _pe(pe_id, chip) for pe_id in topology.graph.pe_ids}
    for pe in pes.values():
        pe.scheduler.on_tile_waited = recorder.tile_waited if recorder is not None else None
    materialize = without_log
    if recorder is not None:
        materialize = Materializer(recorder, list(pes.values()), memory)
    session = Session(chip.clock, memory, listeners, recorder, tracer, materialize)
    launches: dict[int, Launch] = {}
    turns = PeTurns(chip.clock)
    host = _host(chip, directory, pes, (launches, turns), listeners)
    if listeners.on_built is not None:
        listeners.on_built(chip)
    return Built(chip, pes, session, launches, host, directory, turns)


def _pe(pe_id: str, chip: Chip) -> ProcessingElement:
    topology = chip.topology
    nodes, regions = topology.graph.pe_nodes(pe_id), topology.address_map
    tcm = regions.region_of_node(_memory_of_kind(pe_id, nodes, NodeKind.PE_TCM, topology).id)
    registers = regions.region_of_node(_memory_of_kind(pe_id, nodes, NodeKind.PE_FETCH_STORE, topology).id)
    blocks = [chip.components[node.id] for node in nodes]
    return ProcessingElement(pe_id, blocks, (tcm.owner, tcm.nbytes), registers.owner)


def _memory_of_kind(pe_id: str, nodes: Sequence[Node], kind: NodeKind, topology: Topology) -> Node:
    """Returns the node of *kind* in a PE. Raises TopologyError unless there is exactly one, and it has a memory."""
    found = [node for node in nodes if node.kind is kind]
    if len(found) == 1 and found[0].memory is not None:
        return found[0]
    path = ("cube", "pe_template", "nodes")
    raise topology.error(
        path, f"{len(found)} {kind.value} nodes with a memory", "one", f"give {pe_id} one `{kind.value}`"
    )


def _host(
    chip: Chip,
    directory: BlockDirectory,
    pes: dict[str, ProcessingElement],
    launches: tuple[dict[int, Launch], PeTurns],
    listeners: Listeners,
) -> HostCalls | None:
    """Returns the calls of the host, with every PE's CPU listening, or None for a topology without a host."""
    port = find_host(chip.topology, chip.components, chip.fabric)
    if port is None:
        return None
    directory.fill(chip.topology.graph, chip.components)
    for pe in pes.values():
        pe.cpu.on_request = PeMessages(pe, *launches).take
    host = HostCalls(chip.clock, chip.fabric, port, directory, listeners.on_return)
    port.on_response = host.answered
    return host
