"""The fabric of a chip: one of rates, one that multicasts, or one of packets where a block has buffers of a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UnsetType

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import BufferedComponent
from kb_engine.engine.registry import Registry
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.multicast.multicast_fabric import MulticastFabric
from kb_engine.fabric.packets.packet_fabric import PacketFabric
from kb_engine.fabric.transfer_rows import TransferRows
from kb_engine.timing.clock import Clock
from kb_messages import FabricTransfer
from kb_topology import Node, Topology


def fabric_of(
    topology: Topology,
    registry: Registry,
    clock: Clock,
    on_transfer: Callable[[FabricTransfer], None] | None,
    rows: TransferRows | None,
) -> Fabric:
    """The fabric of *topology*, without its blocks. *on_transfer* and *rows* are as of Fabric.

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
    """Raise TopologyError for a block whose buffers are smaller than a packet, which could never come in."""
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
    """The first node whose block has buffers of a size."""
    by_impl = dict[str, Node]()
    for node in topology.graph.nodes.values():
        by_impl.setdefault(node.impl, node)
    for node in by_impl.values():
        if issubclass(registry.component_type(node, topology.source), BufferedComponent):
            return node
    return None
