"""Builds a finished chip from a topology: makes every block, wires the blocks, and connects the observers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from math import lcm
from typing import Final, Literal, NamedTuple, TypeAlias

from kb_dataexec import LogWriter, MemoryStore
from kb_engine.block.block_directory import BlockDirectory
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.engine.chips import watched_chip
from kb_engine.engine.disabled import why_nothing_isolates
from kb_engine.engine.registry import Registry
from kb_engine.fabric.transfer_rows import TransferRows
from kb_engine.fastforward.isolated.isolated_commands import IsolatedCommands
from kb_engine.fastforward.isolated.pe_forms import all_sources_belong_to_pes
from kb_engine.fastforward.isolated.pe_isolation import ISSUES_AHEAD, NoIsolation, PeIsolation
from kb_engine.fastforward.steady_state.command_skipper import CommandSkipper
from kb_engine.launch.host_calls import HostCalls
from kb_engine.launch.host_path_check import find_host
from kb_engine.launch.launch import Launch
from kb_engine.launch.pe_messages import PeMessages
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.chip import Chip
from kb_engine.observe.listeners import Listeners, listener
from kb_engine.observe.observer import Observer
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.slow_path import SkipRefusal, SlowPathReasons
from kb_engine.observe.tracer import Tracer
from kb_engine.program.materialize import Materializer, without_log
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.session import Session
from kb_topology import Node, NodeKind, Topology

OF_STAGES: Final = ("on_stage", "on_wait")
"""What observers are told of every stage of every tile."""

Exactness: TypeAlias = Literal["closed", "events", "check"]
"""How commands are simulated that nothing can meet: see Engine."""


class Built(NamedTuple):
    """A finished chip and the way to run programs on it. `launches` are those under way, by number. `folder` folds
    commands, unless every event counts. `why_open` says why no command is closed; None if some are."""

    chip: Chip
    pes: dict[str, ProcessingElement]
    session: Session
    launches: dict[int, Launch]
    host_calls: HostCalls | None
    folder: CommandSkipper | None
    closed: IsolatedCommands | None
    why_open: SkipRefusal | None


def build(
    topology: Topology,
    registry: Registry,
    writer: LogWriter | None,
    observers: Sequence[Observer],
    exact: Exactness,
    reasons: SlowPathReasons,
) -> Built:
    """Everything that *topology* describes, watched by *observers*. With a *writer* there is an op log.

    *exact* says how commands are simulated that nothing can meet. *reasons* takes why others are simulated event by
    event.

    Raises TopologyError when the topology names blocks that are not installed, or attributes that they do not take.
    """
    recorder = Recorder(writer, listener(observers, "on_chunk")) if writer is not None else None
    on_trace = listener(observers, "on_trace")
    tracer = Tracer(on_trace) if on_trace is not None else None
    listeners = Listeners([each for each in (recorder, tracer, *observers) if each is not None])
    directory = BlockDirectory(recorder.tables.message_arrived if recorder is not None else None)
    rows = TransferRows(recorder.tables.transfers, recorder.tables.number_of) if recorder is not None else None
    chip = watched_chip(topology, registry, directory, listeners, (tracer, rows))
    regions = (*topology.address_map.regions, *topology.address_map.interleaved.values())
    burst_nbytes = lcm(*(each.burst_nbytes for each in chip.components.values() if isinstance(each, MemoryComponent)))
    store = MemoryStore((region.owner, region.nbytes, region.node_id) for region in regions)
    memory = DeviceMemory(store, burst_nbytes)
    pes = {pe_id: _pe(pe_id, chip) for pe_id in topology.graph.pe_ids}
    sees_stages = tracer is not None or any(listener([each], name) for each in observers for name in OF_STAGES)
    skips = chip.fabric.is_foreseen and exact != "events" and not sees_stages
    folder = CommandSkipper(chip, recorder, reasons) if skips else None
    for pe in pes.values():
        if folder is not None:
            pe.scheduler.on_feed = partial(
                folder.watch, [chip.components[node.id] for node in topology.graph.pe_nodes(pe.pe_id)]
            )
        pe.scheduler.on_tile_waited = recorder.tables.tile_waited if recorder is not None else None
    is_told_of = [name for name in (*OF_STAGES, "on_trace") if listener(observers, name) is not None]
    closed = None if sees_stages else _closed(exact, chip, recorder, folder, reasons)
    why_open = None
    if closed is None:
        why_open = why_nothing_isolates(exact, chip.fabric.is_foreseen, is_told_of)
    _set_closers(chip, pes, closed, why_open, reasons)
    materialize = without_log
    if recorder is not None:
        materialize = Materializer(recorder, list(pes.values()), memory, closed)
    session = Session(chip.clock, memory, listeners, recorder, tracer, materialize)
    launches: dict[int, Launch] = {}
    host = _host(chip, directory, pes, launches, listeners)
    if listeners.on_built is not None:
        listeners.on_built(chip)
    return Built(chip, pes, session, launches, host, folder, closed, why_open)


def _closed(
    exact: Exactness,
    chip: Chip,
    recorder: Recorder | None,
    folder: CommandSkipper | None,
    reasons: SlowPathReasons,
) -> IsolatedCommands | None:
    """What closes the commands of all PEs; None where ties with other commands, or what these hold, are not told."""
    is_foreseen = chip.fabric.is_foreseen and all_sources_belong_to_pes(list(chip.components.values()))
    if exact == "events" or not is_foreseen:
        return None
    event_by_event = nullcontext if folder is None else folder.resting
    return IsolatedCommands(chip, recorder, event_by_event, exact == "check", reasons)


def _set_closers(
    chip: Chip,
    pes: dict[str, ProcessingElement],
    closed: IsolatedCommands | None,
    why_open: SkipRefusal | None,
    reasons: SlowPathReasons,
) -> None:
    """Have *closed* close the commands of *pes*. *reasons* takes why others are not closed."""
    for pe_id, pe in pes.items():
        if closed is None or pe.cpu.issues_ahead:
            pe.scheduler.isolation = NoIsolation(why_open or ISSUES_AHEAD, reasons)
        else:
            mine = [chip.components[node.id] for node in chip.topology.graph.pe_nodes(pe_id)]
            pe.scheduler.isolation = PeIsolation(closed, chip.fabric, mine, pe.event_order)


def _pe(pe_id: str, chip: Chip) -> ProcessingElement:
    topology = chip.topology
    nodes, regions = topology.graph.pe_nodes(pe_id), topology.address_map
    tcm = regions.region_of_node(_memory_of_kind(pe_id, nodes, NodeKind.PE_TCM, topology).id)
    registers = regions.region_of_node(_memory_of_kind(pe_id, nodes, NodeKind.PE_FETCH_STORE, topology).id)
    blocks = [chip.components[node.id] for node in nodes]
    return ProcessingElement(pe_id, blocks, (tcm.owner, tcm.nbytes), registers.owner)


def _memory_of_kind(pe_id: str, nodes: Sequence[Node], kind: NodeKind, topology: Topology) -> Node:
    """The one node of *kind* in a PE. Raises TopologyError unless there is one, and it has a memory."""
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
    launches: dict[int, Launch],
    listeners: Listeners,
) -> HostCalls | None:
    """The host's end of the bus, with every PE's CPU listening; None for a topology without a host."""
    port = find_host(chip.topology, chip.components, chip.fabric)
    if port is None:
        return None
    directory.fill(chip.topology.graph, chip.components)
    for pe in pes.values():
        pe.cpu.on_request = PeMessages(pe, launches).take
    host = HostCalls(chip.clock, chip.fabric, port, directory, listeners.on_return)
    port.on_response = host.answered
    return host
