"""Makes the blocks of a topology and wires them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_engine.block.block_authors import is_foreign, last_line
from kb_engine.block.block_directory import BlockDirectory
from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.stage_server import StageServer
from kb_engine.block.transfer_server import server_of
from kb_engine.engine.fabric_of import check_buffers, fabric_of
from kb_engine.engine.registry import Registry
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Listeners
from kb_engine.observe.traced_server import traced_server_of
from kb_engine.timing.clock import Clock
from kb_messages import KbError, StageType, TopologyError
from kb_topology import Node, Topology

if TYPE_CHECKING:
    from kb_engine.fabric.transfer_rows import TransferRows
    from kb_engine.observe.tracer import Tracer


def chip_of(topology: Topology) -> Chip:
    """The blocks of *topology* and its fabric, to be asked for their ways and bandwidths. Nothing runs on them.

    A fifth of the modules of an engine are loaded. Raises TopologyError as `watched_chip` does.
    """
    return watched_chip(topology, Registry(), BlockDirectory(None), Listeners(()), (None, None))


def watched_chip(
    topology: Topology,
    registry: Registry,
    directory: BlockDirectory,
    listeners: Listeners,
    watchers: tuple[Tracer | None, TransferRows | None],
) -> Chip:
    """Every block of *topology* and its fabric, without PEs. *listeners* and *watchers* hear of what happens.

    Raises TopologyError when the topology names blocks that are not installed, or attributes that they do not take.
    """
    clock, (tracer, rows) = Clock(listeners.on_housekeeping), watchers
    event_order = {pe_id: clock.pe_event_order(number) for number, pe_id in enumerate(topology.graph.pe_ids)}
    on_transfer = tracer.fabric_transfer if tracer is not None else None
    fabric = fabric_of(topology, registry, clock, on_transfer, rows)

    def context(node: Node, nbytes: int) -> Context:
        return Context(node.id, clock, fabric, nbytes, directory, event_order.get(str(node.pe_id)))

    components = _blocks(topology, registry, context)
    check_buffers(topology, components)
    fabric.attach(components)
    _wire(topology, components, listeners, tracer)
    return Chip(topology, clock, fabric, components)


def _blocks(topology: Topology, registry: Registry, context: Any) -> dict[str, ComponentBase[Any]]:
    """Every block by node id. Nodes that share their attributes share one checked Spec."""
    kinds: dict[int, tuple[type[ComponentBase[Any]], Any]] = {}
    components: dict[str, ComponentBase[Any]] = {}
    for node in topology.graph.nodes.values():
        key = id(node.attrs)
        if key not in kinds:
            kinds[key] = registry.spec(node, topology.source)
        component_type, spec = kinds[key]
        nbytes = node.memory.nbytes if node.memory is not None else 0
        its_context = context(node, nbytes)
        try:
            made = components[node.id] = component_type(spec, its_context)
        except Exception as error:
            _place(error, node, topology)
            _refuse(error, component_type, "__init__", node, topology)
            raise
        if getattr(made, "context", None) is not its_context:
            raise _impl_error(node, topology, "__init__ calls no super().__init__(spec, context)", "a block that does")
    return components


def _place(error: Exception, node: Node, topology: Topology) -> None:
    """Raise an *error* about an attribute of the block of *node* (`sip0.cube0.hbm0.sets`) at its place in the file."""
    if isinstance(error, TopologyError):
        name = error.where.removeprefix(f"{node.id}.")
        if name in node.attrs:
            raise topology.source.error((*node.yaml_path, name), error.got, error.needs, error.fix) from None


def _refuse(
    error: Exception, block_type: type[ComponentBase[Any]], method: str, node: Node, topology: Topology
) -> None:
    """Raise a TopologyError for an *error* in *method* of the block of *node*, if somebody else made the block."""
    if not isinstance(error, KbError) and is_foreign(block_type):
        said = f"{method} raised {error!r} at {last_line(error.__traceback__)}"
        raise _impl_error(node, topology, said, "a block that can be made and wired") from error


def _impl_error(node: Node, topology: Topology, said: str, needs: str) -> TopologyError:
    return topology.source.error((*node.yaml_path, "impl"), f"{node.impl}, whose {said}", needs)


def _wire(
    topology: Topology, components: dict[str, ComponentBase[Any]], listeners: Listeners, tracer: Tracer | None
) -> None:
    graph = topology.graph
    for wire in graph.wires:
        components[wire.src].context.add_neighbour(graph.nodes[wire.dst].kind.value, components[wire.dst])
    for component in components.values():
        component.servers = {each: _server(component, each, listeners, tracer) for each in component.serves}
    for component in components.values():
        try:
            component.connect()
        except Exception as error:
            _refuse(error, type(component), "connect", graph.nodes[component.node_id], topology)
            raise
    for component in components.values():
        reachable = [component, *component.context.downstream]
        for server in component.servers.values():
            try:
                gates = component.gates(server.stage_type)
            except Exception as error:
                _refuse(error, type(component), "gates", graph.nodes[component.node_id], topology)
                raise
            server.guard(gates)
            for target_block in reachable:
                for stage_type, downstream in target_block.servers.items():
                    server.downstream[stage_type][target_block.node_id] = downstream


def _server(
    component: ComponentBase[Any], stage_type: StageType, listeners: Listeners, tracer: Tracer | None
) -> StageServer:
    if tracer is None:
        return server_of(component, stage_type, listeners.on_stage, listeners.on_wait)
    return traced_server_of(component, stage_type, listeners.on_stage, listeners.on_wait, tracer)
