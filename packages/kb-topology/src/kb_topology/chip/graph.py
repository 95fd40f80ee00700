"""The expanded topology: nodes, links and wires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct

from kb_messages import MemorySpace, TopologyError
from kb_topology.chip.spec import FORWARDING, NodeKind
from kb_topology.text.sentences import did_you_mean
from kb_topology.text.yaml_reader import YamlPath

E = TypeVar("E", "Link", "Wire")


def exact(value: float | int) -> Fraction:
    """The decimal number in the YAML file as a fraction: `exact(102.4)` is 512/5, not the nearest double."""
    return Fraction(repr(value))


class NodeMemory(Struct, frozen=True, kw_only=True, gc=False):
    """A memory of *nbytes* bytes that a node holds."""

    space: MemorySpace
    nbytes: int


class Node(Struct, frozen=True, kw_only=True, gc=False):
    """One piece of hardware.

    `id` is like `sip0.cube3.pe5.pe_dma`, `sip0.io0.io_cpu` or `host`. `sip`, `io`, `cube` and `pe` are the numbers of
    the parts that hold the node, and None for parts that do not hold it. Cubes are numbered within their SIP, and PEs
    within their cube. `index` is None when the template has no count. `attrs` are the raw attributes of the component,
    which stand at `yaml_path` of the source of the topology.
    """

    id: str
    kind: NodeKind
    impl: str
    attrs: Mapping[str, Any]
    memory: NodeMemory | None
    sip: int | None
    io: int | None = None
    cube: int | None
    pe: int | None
    index: int | None
    yaml_path: YamlPath

    @property
    def pe_id(self) -> str | None:
        """The id of the PE that the node is in, like `sip0.cube0.pe5`."""
        return None if self.pe is None else f"sip{self.sip}.cube{self.cube}.pe{self.pe}"


class Link(Struct, frozen=True, kw_only=True, gc=False):
    """A directed link of the fabric.

    *bw_gbs* is in bytes per nanosecond, *latency_ps* the travel time along the link.
    """

    src: str
    dst: str
    bw_gbs: Fraction
    length_mm: Fraction
    latency_ps: int

    @property
    def is_port(self) -> bool:
        """Whether the link leads from a node to itself: such a link is the port of the node."""
        return self.src == self.dst


class Wire(Struct, frozen=True, kw_only=True, gc=False):
    """A connection inside a PE for commands and tile tokens, which takes no time."""

    src: str
    dst: str


@dataclass(frozen=True)
class Graph:
    """Nodes by id, links and wires in the order in which they are built: from the outside in, in the order of the file.

    The nodes of the system come first. Then come the nodes of each SIP: first the nodes of its IO chiplets, then the
    nodes of its cubes. In a cube, the PEs follow the cube's own nodes.
    """

    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    wires: tuple[Wire, ...]

    def node(self, node_id: str) -> Node:
        """The node *node_id*. Raises TopologyError when there is none."""
        if node_id not in self.nodes:
            raise TopologyError("node", repr(node_id), "the id of a node", did_you_mean(node_id, self.nodes))
        return self.nodes[node_id]

    def out_links(self, node_id: str) -> tuple[Link, ...]:
        """The links that begin at *node_id*. Raises TopologyError when there is no such node."""
        found = self._links_by_end[0].get(node_id)
        return self._no_links(node_id) if found is None else found

    def in_links(self, node_id: str) -> tuple[Link, ...]:
        """The links that end at *node_id*. Raises TopologyError when there is no such node."""
        found = self._links_by_end[1].get(node_id)
        return self._no_links(node_id) if found is None else found

    def _no_links(self, node_id: str) -> tuple[Link, ...]:
        self.node(node_id)
        return ()

    def out_wires(self, node_id: str) -> tuple[Wire, ...]:
        """The wires that begin at *node_id*. Raises TopologyError when there is no such node."""
        return self._wires_by_src.get(self.node(node_id).id, ())

    def nodes_of_kind(self, kind: NodeKind) -> tuple[Node, ...]:
        """All nodes of *kind*."""
        return tuple(node for node in self.nodes.values() if node.kind is kind)

    @property
    def pe_ids(self) -> tuple[str, ...]:
        """The ids of all PEs, like `sip0.cube0.pe5`."""
        return tuple(self._pes)

    def pe_nodes(self, pe_id: str) -> tuple[Node, ...]:
        """The nodes inside the PE *pe_id*. Raises TopologyError when no PE has that id."""
        if pe_id not in self._pes:
            raise TopologyError("PE", repr(pe_id), "the id of a PE", did_you_mean(pe_id, self._pes))
        return self._pes[pe_id]

    @cached_property
    def forwarding(self) -> frozenset[str]:
        """The ids of the nodes of FORWARDING kinds. The set is built once, because Python hashes kinds slowly."""
        return frozenset([node.id for node in self.nodes.values() if node.kind in FORWARDING])

    @cached_property
    def pe_places(self) -> Mapping[str, tuple[tuple[int, int], int]]:
        """The place of each PE by its id: ((SIP, number of the cube in the SIP), number of the PE in the cube)."""
        places = {}
        for pe_id, nodes in self._pes.items():
            node = nodes[0]
            assert node.sip is not None
            assert node.cube is not None
            assert node.pe is not None
            places[pe_id] = (node.sip, node.cube), node.pe
        return places

    @cached_property
    def _links_by_end(self) -> tuple[dict[str, tuple[Link, ...]], dict[str, tuple[Link, ...]]]:
        return _group(self.links, "src"), _group(self.links, "dst")

    @cached_property
    def _wires_by_src(self) -> dict[str, tuple[Wire, ...]]:
        return _group(self.wires, "src")

    @cached_property
    def _pes(self) -> dict[str, tuple[Node, ...]]:
        pes: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            if node.pe_id is not None:
                pes.setdefault(node.pe_id, []).append(node)
        return {pe_id: tuple(nodes) for pe_id, nodes in pes.items()}


def _group(edges: Iterable[E], end: str) -> dict[str, tuple[E, ...]]:
    groups: dict[str, list[E]] = {}
    for edge in edges:
        groups.setdefault(getattr(edge, end), []).append(edge)
    return {node_id: tuple(edges) for node_id, edges in groups.items()}
