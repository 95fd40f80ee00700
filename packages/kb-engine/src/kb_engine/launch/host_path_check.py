"""Finds the host of a topology, and checks the path of its messages: host, io_cpus, m_cpus, PEs and back.

Design: docs/design/launch-and-host.md

A topology has the whole path or nothing of it. The whole path is one host, an io_cpu in every SIP, an m_cpu in every
cube, and links between them in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb_engine.block.component import ComponentBase
from kb_engine.block.control_roles import CommandDispatcher, HostPort
from kb_engine.fabric.fabric import Fabric
from kb_messages import TopologyError
from kb_topology import Graph, Node, NodeKind, Topology

_ON_THE_PATH = (NodeKind.HOST, NodeKind.IO_CPU, NodeKind.M_CPU)


def find_host(topology: Topology, components: Mapping[str, ComponentBase[Any]], fabric: Fabric) -> HostPort[Any] | None:
    """Returns the block of the topology's host, or None for a topology with no host, no io_cpu and no m_cpu.

    Raises TopologyError, at a node's place in the file, when a part of the path is missing or a block on it has the
    wrong role.
    """
    found = {kind: topology.graph.nodes_of_kind(kind) for kind in _ON_THE_PATH}
    present = [nodes[0] for nodes in found.values() if nodes]
    if not present:
        return None
    missing = [kind.value for kind, nodes in found.items() if not nodes]
    if missing:
        raise topology.error(
            present[0].yaml_path,
            f"a topology with {present[0].kind.value} and without {' and '.join(missing)}",
            "host, io_cpu and m_cpu, or none of them",
            "without them launches, host reads and host writes take no time",
        )
    _check_counts(topology, found)
    port: HostPort[Any] = _as_role(topology, found[NodeKind.HOST][0], components, HostPort)
    for kind in (NodeKind.IO_CPU, NodeKind.M_CPU):
        for node in found[kind]:
            _as_role(topology, node, components, CommandDispatcher)
    _check_links(topology, port.node_id, fabric)
    return port


def _check_counts(topology: Topology, found: Mapping[NodeKind, Sequence[Node]]) -> None:
    sips, cubes = topology.spec.sips, topology.spec.sips * topology.spec.cubes_per_sip
    wanted = (
        (NodeKind.HOST, 1, "one"),
        (NodeKind.IO_CPU, sips, "one in every SIP"),
        (NodeKind.M_CPU, cubes, "one in every cube"),
    )
    for kind, count, needs in wanted:
        if len(found[kind]) != count:
            raise topology.error(found[kind][0].yaml_path, f"{len(found[kind])} {kind.value} nodes", needs)


def _as_role(topology: Topology, node: Node, components: Mapping[str, ComponentBase[Any]], role: type[Any]) -> Any:
    block = components[node.id]
    if not isinstance(block, role):
        path = (*node.yaml_path, "impl")
        raise topology.error(path, f"{node.impl} for the {node.kind.value}", f"a block that is a {role.__name__}")
    return block


def _check_links(topology: Topology, host: str, fabric: Fabric) -> None:
    """Raises TopologyError where a message has no route, or its answer has no route back."""
    for upper, lower in _steps(topology.graph, host):
        for src, dst in ((upper, lower), (lower, upper)):
            try:
                fabric.route(src.id, dst.id)
            except TopologyError as error:
                raise topology.error(lower.yaml_path, f"no path from {src.id} to {dst.id}", error.needs) from None


def _steps(graph: Graph, host: str) -> Iterator[tuple[Node, Node]]:
    """Yields every pair of nodes between which messages go down and answers come up.

    The host sends to any io_cpu. The first io_cpu sends to the others, an io_cpu to the m_cpus of its SIP, and an m_cpu
    to the PEs of its cube.
    """
    io_cpus = {node.sip: node for node in graph.nodes_of_kind(NodeKind.IO_CPU)}
    m_cpus = {(node.sip, node.cube): node for node in graph.nodes_of_kind(NodeKind.M_CPU)}
    first, *others = io_cpus.values()
    yield from ((graph.nodes[host], io_cpu) for io_cpu in io_cpus.values())
    yield from ((first, io_cpu) for io_cpu in others)
    yield from ((io_cpus[node.sip], node) for node in m_cpus.values())
    yield from ((m_cpus[node.sip, node.cube], node) for node in graph.nodes_of_kind(NodeKind.PE_CPU))
