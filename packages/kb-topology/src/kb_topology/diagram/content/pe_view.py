"""The picture of a PE: its blocks with their attributes, the wires between them, and the fabric around the PE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kb_topology.chip.graph import Link, Node
from kb_topology.chip.spec import NodeKind as Kind
from kb_topology.diagram.chart import Box, Edge, Heat, Line
from kb_topology.diagram.content.attributes import all_lines, cut
from kb_topology.diagram.content.parts import STYLES, Part, line_of, link_label, near
from kb_topology.diagram.loads import LinkLoad, heat_of, links_tip

_ROWS = (
    (Kind.PE_CPU, Kind.PE_QUEUE),
    (Kind.PE_SCHEDULER,),
    (Kind.PE_MMU, Kind.PE_DMA, Kind.PE_FETCH_STORE, Kind.PE_GEMM, Kind.PE_MATH),
    (Kind.PE_TCM,),
)
_MOST_LINES = 8


def pe_rows(part: Part) -> tuple[list[tuple[Box, ...]], list[Edge]]:
    """Rows of the blocks of a PE and of its neighbours in the cube, and the wires and links as edges."""
    graph = part.topology.graph
    nodes = {node.id: node for node in graph.pe_nodes(".".join(part.names))}
    listed = [kind for kinds in _ROWS for kind in kinds]
    by_kind: dict[Kind, list[Box]] = defaultdict(list)
    for node in nodes.values():
        by_kind[node.kind].append(_block(part, node))
    rows = [[box for kind in kinds for box in by_kind[kind]] for kinds in _ROWS]
    rows[-1] += [box for kind, boxes in by_kind.items() if kind not in listed for box in boxes]
    wires = {(wire.src, wire.dst) for node_id in nodes for wire in graph.out_wires(node_id)}
    edges: list[Edge] = []
    order = {node_id: number for number, node_id in enumerate(nodes)}
    for src, dst in sorted(wires, key=lambda ends: (order[ends[0]], order[ends[1]])):
        if (dst, src) not in wires or src < dst:
            line: Line = "command" if Kind.PE_SCHEDULER in (nodes[src].kind, nodes[dst].kind) else "data"
            one_way = (dst, src) not in wires
            tip = f"{src} {'to' if one_way else 'and'} {dst}: a wire"
            edges.append(Edge(src, dst, (), line, True, one_way, tip))
    fabric, links = _around(part, nodes)
    edges += links
    rows[-1] = list(near((*rows[-1], *fabric), [tuple(row) for row in rows[:-1]], edges))
    return [tuple(row) for row in rows], edges


def _block(part: Part, node: Node) -> Box:
    """A block with all its attributes, or as many as fit."""
    lines = [cut(text) for text in all_lines(node)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"and {len(lines) - _MOST_LINES + 1} more"]
    return part.node_box([node], node.id, part.local(node.id), lines)


def _around(part: Part, nodes: Mapping[str, Node]) -> tuple[list[Box], list[Edge]]:
    """The neighbours of a PE's nodes in its cube, a box for each kind, and the links to them as edges."""
    graph = part.topology.graph
    boxes: dict[str, Box] = {}
    links: dict[tuple[str, str, tuple[str, ...], Line], list[Link]] = defaultdict(list)
    for node in nodes.values():
        for link in graph.out_links(node.id):
            other = graph.nodes[link.dst]
            kind = other.kind.value
            title, style = f"{kind} of the cube", STYLES.get(other.kind, "compute")
            boxes[kind] = Box(kind, title, (), style, kind, title)
            links[node.id, kind, link_label(link), line_of(node, other)].append(link)
    edges = []
    for (node_id, kind, label, line), found in links.items():
        tip, heat = _summary(part, found[0], kind)
        edges.append(Edge(node_id, kind, label, line, tip=tip, heat=heat, count=len(found)))
    return list(boxes.values()), edges


def _summary(part: Part, link: Link, kind: str) -> tuple[str, Heat | None]:
    """The tooltip and the utilization of links like *link* between this block and nodes of *kind*, both ways."""
    lines = [f"{link.src} - {kind}: {', '.join(link_label(link))}, {link.latency_ps} ps"]
    if part.loads is None:
        return lines[0], None
    ways: tuple[list[tuple[tuple[str, str], LinkLoad]], ...] = ([], [])
    nodes = part.topology.graph.nodes
    for ends, load in part.loads.links.items():
        for way, inner, outer in zip(ways, ends, reversed(ends), strict=True):
            inside = (nodes[inner].pe_id == ".".join(part.names)) if part.of else nodes[inner].pe is not None
            if inside and part.local(inner) == part.local(link.src) and nodes[outer].kind.value == kind:
                way.append((ends, load))
    heats = [heat for way in ways if (heat := heat_of([load.utilization for _, load in way])) is not None]
    lines += [links_tip(way) for way in ways if way]
    return "\n".join(lines), max(heats, key=lambda heat: heat.top, default=None)
