"""Makes the blocks of a topology and its fabric, and wires them.

Design: docs/design/architecture.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_engine.block.block_authors import is_foreign, last_line
from kb_engine.block.block_directory import BlockDirectory
from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.stage_server import StageServer
from kb_engine.block.transfer_server import server_of
from kb_engine.engine.registry import Registry
from kb_engine.engine.slow_blocks import slowed
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Listeners
from kb_engine.observe.traced_server import traced_server_of
from kb_engine.timing.clock import Clock
from kb_messages import KbError, StageType, TopologyError
from kb_topology import Node, Topology

if TYPE_CHECKING:
    from kb_engine.fabric.transfer_rows import TransferRows
    from kb_engine.observe.tracer import Tracer


from collections.abc import Callable, Mapping

from msgspec import UnsetType

from kb_engine.block.fabric_roles import BufferedComponent
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.multicast.multicast_fabric import MulticastFabric
from kb_engine.fabric.packets.packet_fabric import PacketFabric
from kb_engine.fabric.transfer_rows import TransferRows
from kb_messages import FabricTransfer


def chip_of(topology: Topology) -> Chip:
    """Returns the blocks of *topology* and its fabric, for questions about paths and bandwidths. Nothing runs on them.

    This loads a fifth of the modules of an engine. Raises TopologyError as `watched_chip` does.
    """
    return watched_chip(topology, Registry(), BlockDirectory(None), Listeners(()), (None, None))


def watched_chip(
    topology: Topology,
    registry: Registry,
    directory: BlockDirectory,
    listeners: Listeners,
    watchers: tuple[Tracer | None, TransferRows | None],
) -> Chip:
    """Makes every block of *topology* and its fabric, without PEs. *listeners* and *watchers* are notified of events.

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
    """Makes every block, by node id. Nodes of equal attributes, in PEs of one factor, share a checked Spec."""
    kinds: dict[tuple[int, float], tuple[type[ComponentBase[Any]], Any]] = {}
    components: dict[str, ComponentBase[Any]] = {}
    for node in topology.graph.nodes.values():
        key = id(node.attrs), topology.slow.get(str(node.pe_id), 1.0) if topology.slow else 1.0
        if key not in kinds:
            component_type, spec = registry.spec(node, topology.source)
            kinds[key] = component_type, slowed(component_type, spec, node, topology)
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
    """Raises an *error* about an attribute of the block of *node* (`sip0.cube0.hbm0.sets`) at its place in the file."""
    if isinstance(error, TopologyError):
        name = error.where.removeprefix(f"{node.id}.")
        if name in node.attrs:
            raise topology.source.error((*node.yaml_path, name), error.got, error.needs, error.fix) from None


def _refuse(
    error: Exception, block_type: type[ComponentBase[Any]], method: str, node: Node, topology: Topology
) -> None:
    """Raises a TopologyError for an *error* in *method* of the block of *node*, if another author made the block."""
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


def fabric_of(
    topology: Topology,
    registry: Registry,
    clock: Clock,
    on_transfer: Callable[[FabricTransfer], None] | None,
    rows: TransferRows | None,
) -> Fabric:
    """Makes the fabric of *topology*, without its blocks. *on_transfer* and *rows* are passed on to Fabric.

    A chip has transfers at rates, or transfers that multicast, or packets where a block has buffers of a given size.

    Raises TopologyError for blocks that are not installed, and for buffers on a chip that multicasts, or whose
    transfers have no packets.
    """
    packets, multicast = topology.spec.packets, topology.spec.multicast
    graph, address_map = topology.graph, topology.address_map
    buffered = _buffered(topology, registry)
    if buffered is None:
        on_links = None if isinstance(packets, UnsetType) else packets.on_links
        if isinstance(multicast, UnsetType):
            return Fabric(clock, graph, address_map, on_transfer, rows, on_links)
        return MulticastFabric(multicast.receivers, clock, graph, address_map, on_transfer, rows, on_links)
    if not isinstance(multicast, UnsetType):
        got = f"multicast, and buffers of a size ({buffered.impl} of {buffered.id})"
        raise topology.error(("multicast",), got, "nodes with room for everything", "use `builtin.transit` there")
    if isinstance(packets, UnsetType):
        path, got = (*buffered.yaml_path, "impl"), f"{buffered.impl}, and transfers without packets"
        raise topology.error(
            path, got, "packets, for which a buffer has room", "add `packets: {payload_nbytes: 256, header_nbytes: 0}`"
        )
    packet_nbytes = packets.payload_nbytes + packets.header_nbytes
    return PacketFabric(clock, graph, address_map, on_transfer, rows, packets.on_links, packet_nbytes)


def check_buffers(topology: Topology, components: Mapping[str, ComponentBase[Any]]) -> None:
    """Raises TopologyError for a block whose buffers are smaller than a packet, because none could ever enter."""
    packets = topology.spec.packets
    if isinstance(packets, UnsetType):
        return
    least = packets.payload_nbytes + packets.header_nbytes
    for node_id, block in components.items():
        if isinstance(block, BufferedComponent) and block.buffer_nbytes < least:
            path = (*topology.graph.nodes[node_id].yaml_path, "buffer_nbytes")
            got = f"{block.buffer_nbytes} bytes for each link to {node_id}"
            raise topology.error(path, got, f"at least {least}, the bytes of a whole packet with its header")


def _buffered(topology: Topology, registry: Registry) -> Node | None:
    """Returns the first node whose block has buffers of a given size, or None."""
    by_impl = dict[str, Node]()
    for node in topology.graph.nodes.values():
        by_impl.setdefault(node.impl, node)
    for node in by_impl.values():
        if issubclass(registry.component_type(node, topology.source), BufferedComponent):
            return node
    return None
