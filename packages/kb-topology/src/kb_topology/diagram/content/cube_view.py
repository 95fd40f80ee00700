"""The picture of a cube: memory in the north, then the crossbar, the PEs, and the network's routers where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from kb_topology.chip.graph import Node
from kb_topology.chip.spec import NodeKind as Kind
from kb_topology.diagram.chart import Box, Edge
from kb_topology.diagram.content.caches import cache_box, cache_edge, cache_key, has_cache
from kb_topology.diagram.content.network import network_rows
from kb_topology.diagram.content.parts import MOST, Part, near


def cube_rows(part: Part, of_pe: Sequence[Box]) -> tuple[list[tuple[Box, ...]], list[Edge]]:
    """Rows of boxes, and the edges between them. *of_pe* are the boxes of the PEs."""
    graph = part.topology.graph
    inside = [node for node in graph.nodes.values() if node.cube is not None and part.has(node)]
    copies: dict[str, list[Node]] = {}
    for node in inside:
        if node.pe is None:
            copies.setdefault(str(node.yaml_path[-1]), []).append(node)

    def box_of(node: Node) -> str:
        if node.pe is not None:
            return f"pe{node.pe}" if len(of_pe) > 1 else of_pe[0].key
        name = str(node.yaml_path[-1])
        key = part.local(node.id) if len(copies[name]) <= MOST else name
        return cache_key(key) if has_cache(node) else key

    boxes: dict[Kind, list[Box]] = {kind: [] for kind in Kind}
    caches: list[Box] = []
    edges = part.edges(box_of)
    for name, nodes in copies.items():
        several = [[node] for node in nodes] if len(nodes) <= MOST else [nodes]
        for each in several:
            key = part.local(each[0].id) if len(each) == 1 else name
            box = part.node_box(each, key, key if len(each) == 1 else f"{len(each)} x {name}")
            boxes[each[0].kind].append(box)
            if has_cache(each[0]):
                caches.append(cache_box(each, box))
                edges.append(cache_edge(each, box))
    rows: list[tuple[Box, ...]] = []
    for row in (boxes.pop(Kind.HBM), caches, boxes.pop(Kind.XBAR) + boxes.pop(Kind.BRIDGE), list(of_pe)):
        rows.append(near(row, rows, edges))
    routers, others = boxes.pop(Kind.NOC), [box for row in boxes.values() for box in row]
    return network_rows(part, routers, others, rows, edges), edges
