"""The engine: builds the blocks of a topology, wires them, and runs kernels on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kb_dataexec import LogWriter, MemoryStore, OpLog
from kb_dataexec.log import LogSummary
from kb_engine.block.block_directory import BlockDirectory
from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.stage_server import StageServer
from kb_engine.engine.progress import NO_PROGRESS_EVENTS, ProgressGuard
from kb_engine.engine.registry import Registry
from kb_engine.engine.stuck import stuck_error
from kb_engine.engine.wait_graph import WaitGraph
from kb_engine.fabric.fabric import Fabric
from kb_engine.language.tl import Language
from kb_engine.launch.host_calls import Call, CommandPath, find_host
from kb_engine.launch.launch import Launch, LaunchResult
from kb_engine.launch.pe_messages import PeCommands
from kb_engine.launch.targets import check_there, targets_of
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.recorder import OpLogger
from kb_engine.observe.traced_server import TracedServer
from kb_engine.observe.tracer import Tracer
from kb_engine.program.leaks import LeakWatch
from kb_engine.program.materialize import Materializer
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import FrontEnd
from kb_engine.program.runner import Kernel, KernelCall, KernelRunner
from kb_engine.program.session import Session
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import ns_text
from kb_messages import (
    CubeTarget,
    KernelError,
    KernelLaunch,
    LaunchResponse,
    LaunchSent,
    Matrix,
    MmuMessage,
    PipelinePlan,
    SimulationStuckError,
    StageType,
    TraceEvent,
)
from kb_topology import Graph, Node, NodeKind, Topology


class Engine:
    """A simulated chip. With a *writer* every stage service is logged; without one nothing is, and nothing is paid.

    *trace* is called with every trace event, in the order of `trace_order`, *on_plan* with the plan of every command
    that is issued. *leaks* looks at the TCM that kernels leave behind. A launch in which no stage ends for
    *no_progress_events* events counts as stuck.

    Raises TopologyError when the topology names blocks that are not installed or attributes they do not take.
    """

    def __init__(
        self,
        topology: Topology,
        writer: LogWriter | None = None,
        trace: Callable[[TraceEvent], None] | None = None,
        on_plan: Callable[[PipelinePlan], None] | None = None,
        registry: Registry | None = None,
        no_progress_events: int = NO_PROGRESS_EVENTS,
        leaks: LeakWatch | None = None,
    ) -> None:
        self.topology = topology
        self.clock = Clock()
        self._tracer = Tracer(self.clock, trace) if trace is not None else None
        graph, regions = topology.graph, topology.address_map.regions
        self.fabric = Fabric(self.clock, graph, topology.address_map)
        self.directory = BlockDirectory()
        self.components = self._build(graph, registry or Registry())
        self.fabric.attach(self.components)
        self.memory = DeviceMemory(MemoryStore((region.owner, region.nbytes, region.node_id) for region in regions))
        self.initial_memory: MemoryStore | None = None
        self._wire(graph)
        self.pes = {pe_id: self._pe(pe_id) for pe_id in graph.pe_ids}
        if self._tracer is not None:
            self._tracer.schedulers = {pe_id: pe.scheduler for pe_id, pe in self.pes.items()}
            self.fabric.trace = self._tracer.fabric_transfer
        self._writer = writer
        self._oplog = self._attach_log(writer) if writer is not None else None
        self.session = Session(self.clock, self.memory, self._oplog)
        self.session.on_plan = on_plan
        self.session.leaks = leaks
        self.session.tracer = self._tracer
        self._runners: list[KernelRunner] = []
        if writer is not None and self._oplog is not None:
            self.session.materialize = Materializer(
                writer, self._oplog, list(self.pes.values()), lambda: self.initial_memory, self._in_flight
            )
        self._guard = ProgressGuard(self.servers, no_progress_events, self._stands_still)
        self.clock.housekeeping = self._housekeeping
        self._launched = 0
        self._launches: dict[int, Launch] = {}
        self.host = self._attach_host(topology)

    @property
    def servers(self) -> list[StageServer]:
        """Every stage queue and its service, in the topology's order."""
        return [server for component in self.components.values() for server in component.servers.values()]

    def launch(
        self,
        kernel: Kernel,
        arguments: Sequence[Any],
        pe_ids: Sequence[str],
        root: Path,
        targets: Sequence[CubeTarget] | None = None,
        front_end: FrontEnd = Language,
    ) -> LaunchResult:
        """Run *kernel* on each of *pe_ids*, until all are done. Kernel lines are relative to *root*.

        The kernel's first argument is what *front_end* makes of its program port.

        Where the topology has a host, the launch takes its way over the fabric to *targets*, which are the cubes of
        *pe_ids* if they are left out; else all begin at once. Raises KernelError when a kernel misuses `tl` or a target
        is not there, what a kernel itself raises, and SimulationStuckError when nothing is left to happen, or only what
        leads nowhere, while a kernel still waits. After a kernel that failed or a simulation that was stuck it raises
        KbError: nothing more can be simulated.
        """
        if not pe_ids and not targets:
            raise KernelError("launch", "no PEs", "at least one")
        if self.host is None and targets is not None:
            check_there(self.topology.graph, targets)
        if self.initial_memory is None:
            self.initial_memory = self.memory.store.snapshot()
        call = KernelCall(kernel, arguments, root, front_end)
        launch = Launch(self._launched, self.session, [self.pes[pe_id] for pe_id in pe_ids], call)
        self._launched += 1
        self._runners = list(launch.runners.values())
        self._guard.start()
        if self.host is not None:
            return self._launch_over_fabric(self.host, launch, targets or targets_of(self.topology.graph, pe_ids))
        start = self.clock.now_ps
        for pe_id in pe_ids:
            launch.reach(pe_id, start, lambda: None)
        try:
            self.clock.drain()
        finally:
            self._flush_trace()
        self._check_finished(launch)
        result = launch.result(start, start)
        return replace(result, response_ps=result.end_ps)

    def send(self, messages: Sequence[MmuMessage]) -> Call | None:
        """Have the MMUs of the PEs that they name obey *messages*, in one call of the host; at no cost without one.

        The PEs are there and have an MMU. Raises AddressError when one of them refuses, as KernelError over the fabric.
        """
        messages = [message for message in messages if message.pes]
        if self.host is None:
            for each in messages:
                for pe_id in each.pes:
                    mmu = self.pes[pe_id].mmu
                    assert mmu is not None
                    mmu.apply(each)
            return None
        return self._answered(self.host, self.host.call(messages)) if messages else None

    def close_log(self) -> OpLog | LogSummary | None:
        """Write what is pending and close the log; None without one."""
        if self._oplog is None or self._writer is None:
            return None
        self._oplog.flush()
        return self._writer.close()

    def log_host_write(self, matrix: Matrix, data: bytes, times_ps: tuple[int, int]) -> None:
        """Record a host write that comes after the first launch, and when it began and ended."""
        if self._oplog is not None:
            self._oplog.host_write(matrix, data, self.session.next_command_seq(), self.session.take_op_ids(1), times_ps)

    def _launch_over_fabric(self, host: CommandPath, launch: Launch, targets: Sequence[CubeTarget]) -> LaunchResult:
        number, tracer = launch.number, self._tracer
        self._launches[number] = launch

        def sent(t_ps: int) -> None:
            if tracer is not None:
                tracer.launch_event(LaunchSent(t_ps=t_ps, launch=number, n_pes=len(launch.runners)))

        call = host.call([KernelLaunch(launch=number, targets=tuple(targets))], sent)
        del self._launches[number]
        if any(runner.kernel.waiting_at for runner in launch.runners.values()):
            self._check_finished(launch)
        host.check_answered()
        if tracer is not None:
            tracer.launch_event(LaunchResponse(t_ps=call.response_ps, launch=number, ok=call.refusal is None))
            tracer.flush()
        self._answered(host, call)
        self._check_finished(launch)
        return launch.result(call.call_ps, call.response_ps)

    def _answered(self, host: CommandPath, call: Call) -> Call:
        host.check_answered()
        if call.refusal is not None:
            raise KernelError(call.refusal.where, call.refusal.got, call.refusal.needs, call.refusal.fix)
        return call

    def _check_finished(self, launch: Launch) -> None:
        if launch.unfinished:
            self.clock.is_broken = True
            raise self._stuck(f"nothing left to happen after {ns_text(self.clock.now_ps)}")

    def _build(self, graph: Graph, registry: Registry) -> dict[str, ComponentBase[Any]]:
        kinds: dict[int, tuple[type[ComponentBase[Any]], Any]] = {}
        components: dict[str, ComponentBase[Any]] = {}
        for node in graph.nodes.values():
            key = id(node.attrs)
            if key not in kinds:
                kinds[key] = registry.spec(node, self.topology.source)
            component_type, spec = kinds[key]
            nbytes = node.memory.nbytes if node.memory is not None else 0
            components[node.id] = component_type(
                spec, Context(node.id, self.clock, self.fabric, nbytes, self.directory)
            )
        return components

    def _attach_host(self, topology: Topology) -> CommandPath | None:
        port = find_host(topology, self.components, self.fabric)
        if port is None:
            return None
        self.directory.fill(topology.graph, self.components)
        for pe in self.pes.values():
            PeCommands(pe, self._launches)
        return CommandPath(self.clock, self.fabric, port, self.directory, self._flush_trace)

    def _wire(self, graph: Graph) -> None:
        for wire in graph.wires:
            target = graph.nodes[wire.dst]
            self.components[wire.src].context.add_neighbour(target.kind.value, self.components[wire.dst])
        for component in self.components.values():
            component.servers = {each: self._server(component, each) for each in component.serves}
        for component in self.components.values():
            component.connect()
        for component in self.components.values():
            reachable = [component, *component.context.downstream]
            for server in component.servers.values():
                server.guard(component.gates(server.stage_type))
                for target_block in reachable:
                    for stage_type, downstream in target_block.servers.items():
                        server.downstream[stage_type][target_block.node_id] = downstream

    def _server(self, component: ComponentBase[Any], stage_type: StageType) -> StageServer:
        if self._tracer is None:
            return StageServer(component, stage_type)
        return TracedServer(component, stage_type, self._tracer)

    def _pe(self, pe_id: str) -> ProcessingElement:
        nodes = self.topology.graph.pe_nodes(pe_id)
        tcm = _node_of_kind(pe_id, nodes, NodeKind.PE_TCM, self.topology)
        registers = _node_of_kind(pe_id, nodes, NodeKind.PE_FETCH_STORE, self.topology)
        address_map = self.topology.address_map
        region = address_map.region_of_node(tcm.id)
        return ProcessingElement(
            pe_id,
            [self.components[node.id] for node in nodes],
            (region.owner, region.nbytes),
            address_map.region_of_node(registers.id).owner,
        )

    def _flush_trace(self) -> None:
        if self._tracer is not None:
            self._tracer.flush()

    def _in_flight(self) -> Iterator[CommandInFlight]:
        return (context for runner in self._runners for context, _ in runner.commands.in_flight.values())

    def _housekeeping(self) -> None:
        if self._oplog is not None:
            self._oplog.flush_if_full()
        if self._tracer is not None:
            self._tracer.flush_if_idle()
        if not self.clock.is_idle:
            self._guard.look()

    def _stands_still(self, n_events: int) -> None:
        raise self._stuck(f"{n_events} events without the end of a stage, up to {ns_text(self.clock.now_ps)},")

    def _stuck(self, got: str) -> SimulationStuckError:
        memories = {region.owner: region.node_id for region in self.topology.address_map.regions}
        return stuck_error(WaitGraph(self._runners, self.servers, memories), got, len(self._runners))

    def _attach_log(self, writer: LogWriter) -> OpLogger:
        oplog = OpLogger(
            writer,
            {pe.pe_id: pe.tcm_owner for pe in self.pes.values()},
            {pe.pe_id: pe.reg_owner for pe in self.pes.values()},
        )
        for server in self.servers:
            server.record = oplog.record
            server.record_wait = oplog.record_wait
        return oplog


def _node_of_kind(pe_id: str, nodes: Sequence[Node], kind: NodeKind, topology: Topology) -> Node:
    found = [node for node in nodes if node.kind is kind]
    if len(found) == 1 and found[0].memory is not None:
        return found[0]
    path = ("cube", "pe_template", "nodes")
    raise topology.error(
        path, f"{len(found)} {kind.value} nodes with a memory", "one", f"give {pe_id} one `{kind.value}`"
    )
