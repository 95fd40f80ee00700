"""The content of each picture of a topology: boxes in rows, and the labels of the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from msgspec import UnsetType

from kb_topology.diagram.chart import Box, Chart, Edge, Line, Style
from kb_topology.graph import Link, Node
from kb_topology.sizes import format_nbytes
from kb_topology.spec import NodeKind as Kind
from kb_topology.topology import Topology

View = Literal["system", "sip", "cube", "pe"]
VIEWS: tuple[View, ...] = get_args(View)
_MOST = 16
"""More copies of a part than this are drawn as one box."""
_NOTE = "Bandwidth is per direction and line, length is of the wire."

_STYLES: dict[Kind, Style] = {
    **dict.fromkeys((Kind.HBM, Kind.SRAM, Kind.PE_TCM), "memory"),
    **dict.fromkeys((Kind.XBAR, Kind.BRIDGE, Kind.NOC, Kind.UCIE, Kind.SERDES), "fabric"),
    **dict.fromkeys((Kind.PCIE_EP, Kind.IO_NOC), "io"),
    **dict.fromkeys((Kind.HOST, Kind.SWITCH), "outside"),
    **dict.fromkeys((Kind.PE_CPU, Kind.PE_SCHEDULER, Kind.PE_MMU, Kind.M_CPU, Kind.IO_CPU), "command"),
}
_CUBE_ROWS = (
    (Kind.HBM,),
    (Kind.XBAR, Kind.BRIDGE),
    (),
    (Kind.NOC,),
)
"""Rows of kinds, from top to bottom. The empty row is for PEs. Kinds that are not listed have a row below."""
_PE_ROWS = (
    (Kind.PE_CPU,),
    (Kind.PE_SCHEDULER,),
    (Kind.PE_MMU, Kind.PE_DMA, Kind.PE_FETCH_STORE, Kind.PE_GEMM, Kind.PE_MATH),
    (Kind.PE_TCM,),
)


def chart(topology: Topology, view: View) -> Chart:
    """The *view* of *topology*. It shows the first SIP, cube or PE, because all are equal.

    Raises TopologyError for the view of a PE of a chip without PEs.
    """
    return {"system": _system, "sip": _sip, "cube": _cube, "pe": _pe}[view](topology)


def _system(topology: Topology) -> Chart:
    spec, nodes = topology.spec, topology.graph.nodes.values()
    outside = [node for node in nodes if node.sip is None]
    hosts = tuple(_node_box(node) for node in outside if node.kind is Kind.HOST)
    others = tuple(_node_box(node) for node in outside if node.kind is not Kind.HOST)
    pes = len(topology.graph.pe_ids)
    lines = (f"{_count(spec.cubes_per_sip, 'cube')}, {_count(pes // spec.sips, 'PE')}", _chiplets(topology))
    sips = _boxes("sip", "SIP", spec.sips, tuple(filter(None, lines)), "group")

    def box_of(node: Node) -> str:
        return node.id if node.sip is None else _numbered("sip", node.sip, spec.sips)

    edges = _edges(topology, box_of, lambda node: True)
    subtitle = f"{_count(spec.sips, 'SIP')}, {_count(spec.sips * spec.cubes_per_sip, 'cube')}, {_count(pes, 'PE')}"
    return _chart(topology, "system", subtitle, (hosts, others, sips), edges)


def _sip(topology: Topology) -> Chart:
    spec, count = topology.spec, topology.spec.cubes_per_sip
    chiplets = 0 if isinstance(spec.io, UnsetType) else spec.io.count
    inside = [node for node in topology.graph.nodes.values() if node.sip == 0 and node.io == 0]
    parts = ", ".join(dict.fromkeys(node.kind.value for node in inside))
    io = _boxes("io", "IO chiplet", chiplets, (parts,), "io")
    pes = spec.cube.pe_layout.count if spec.cube.pe_layout else 0
    lines = (*((_count(pes, "PE"),) if pes else ()), *_memory_lines(topology))
    mesh = None if isinstance(spec.sip, UnsetType) else spec.sip.cube_mesh
    columns = mesh.cols if mesh else min(count, 8)
    cubes = [Box(f"cube{i}", f"cube {i}", lines, "group") for i in range(count)]
    rows = [tuple(cubes[i : i + columns]) for i in range(0, count, columns)]

    def box_of(node: Node) -> str:
        return f"cube{node.cube}" if node.io is None else _numbered("io", node.io, chiplets)

    edges = _edges(topology, box_of, lambda node: node.sip == 0)
    shape = f" in {mesh.rows} x {mesh.cols}" if mesh else ""
    return _chart(topology, "SIP", f"{_count(count, 'cube')}{shape}, {_count(count * pes, 'PE')}", (io, *rows), edges)


def _cube(topology: Topology) -> Chart:
    spec, graph = topology.spec, topology.graph
    inside = [node for node in graph.nodes.values() if node.sip == 0 and node.cube == 0]
    own = [node for node in inside if node.pe is None]
    counts = {name: template.count or 1 for name, template in spec.cube.nodes.items()}
    pes = spec.cube.pe_layout.count if spec.cube.pe_layout else 0

    def box_of(node: Node) -> str:
        if node.pe is not None:
            return _numbered("pe", node.pe, pes)
        name = node.yaml_path[-1]
        return node.id if counts[str(name)] <= _MOST else str(name)

    boxes: dict[str, tuple[Kind, Box]] = {}
    for node in own:
        key, name = box_of(node), str(node.yaml_path[-1])
        title = node.id.rpartition(".")[2] if key == node.id else f"{counts[name]} x {name}"
        boxes.setdefault(key, (node.kind, _node_box(node, key, title)))
    of_pe = _boxes("pe", "PE", pes, (), "group")
    edges = _edges(topology, box_of, lambda node: node.sip == 0 and node.cube == 0)
    listed = {kind for kinds in _CUBE_ROWS for kind in kinds}
    rows: list[tuple[Box, ...]] = []
    for kinds in (*_CUBE_ROWS, tuple(kind for kind in Kind if kind not in listed)):
        row = tuple(box for kind, box in boxes.values() if kind in kinds) if kinds else of_pe
        rows.append(_near(row, rows, edges))
    subtitle = ", ".join((_count(pes, "PE"), *_memory_lines(topology)))
    return _chart(topology, "cube", subtitle, rows, edges)


def _pe(topology: Topology) -> Chart:
    graph = topology.graph
    if not graph.pe_ids:
        raise topology.error(("cube",), "a chip without PEs", "pe_layout and pe_template", "choose another view")
    nodes = {node.id: node for node in graph.pe_nodes(graph.pe_ids[0])}
    listed = [kind for kinds in _PE_ROWS for kind in kinds]
    rows = [[_node_box(node) for kind in kinds for node in nodes.values() if node.kind is kind] for kinds in _PE_ROWS]
    rows[-1] += [_node_box(node) for node in nodes.values() if node.kind not in listed]
    fabric, links = _around(topology, nodes)
    wires = {(wire.src, wire.dst) for node_id in nodes for wire in graph.out_wires(node_id)}
    edges: list[Edge] = []
    for src, dst in sorted(wires, key=lambda ends: [list(nodes).index(end) for end in ends]):
        if (dst, src) not in wires or src < dst:
            line: Line = "command" if Kind.PE_SCHEDULER in (nodes[src].kind, nodes[dst].kind) else "data"
            edges.append(Edge(src, dst, "", line, True, (dst, src) not in wires))
    edges += links
    rows[-1] = list(_near((*rows[-1], *fabric), [tuple(row) for row in rows[:-1]], edges))
    note = "Arrows are wires: commands and tiles, free of time. Links have bandwidth (each direction) and length."
    return _chart(topology, "PE", _count(len(graph.pe_ids), "PE") + " like this one", rows, edges, note)


def _around(topology: Topology, nodes: Mapping[str, Node]) -> tuple[list[Box], list[Edge]]:
    """The neighbours that the nodes of a PE have in its cube, a box for each kind, and the links as edges."""
    graph = topology.graph
    boxes: dict[str, Box] = {}
    edges: dict[Edge, None] = {}
    for node in nodes.values():
        for link in graph.out_links(node.id):
            other = graph.nodes[link.dst]
            kind = other.kind.value
            boxes[kind] = Box(kind, f"{kind} of the cube", (), _STYLES.get(other.kind, "compute"))
            edges[Edge(node.id, kind, link_label(link), _line(node, other))] = None
    return list(boxes.values()), list(edges)


def _chart(
    topology: Topology,
    what: str,
    subtitle: str,
    rows: Iterable[Iterable[Box]],
    edges: Iterable[Edge],
    note: str = _NOTE,
) -> Chart:
    full = tuple(tuple(row) for row in rows)
    return Chart(f"{topology.name}: {what}", subtitle, tuple(row for row in full if row), tuple(edges), note)


def _edges(topology: Topology, box_of: Callable[[Node], str], shown: Callable[[Node], bool]) -> list[Edge]:
    """The links between different boxes whose two ends are *shown*. Equal links between two boxes are one edge."""
    nodes = topology.graph.nodes
    found: Counter[tuple[str, str, str, Line]] = Counter()
    for link in topology.graph.links:
        src, dst = nodes[link.src], nodes[link.dst]
        if shown(src) and shown(dst) and box_of(src) != box_of(dst):
            found[box_of(src), box_of(dst), link_label(link), _line(src, dst)] += 1
    edges: dict[tuple[str, str, str, Line], Edge] = {}
    for (a, b, label, line), count in found.items():
        one_way = (b, a, label, line) not in found
        if (b, a, label, line) not in edges:
            text = label if count == 1 else f"{count} x {label}"
            edges[a, b, label, line] = Edge(a, b, text, line, one_way, one_way)
    return list(edges.values())


def _line(src: Node, dst: Node) -> Line:
    kinds = {src.kind, dst.kind}
    if kinds & {Kind.PE_CPU, Kind.M_CPU, Kind.IO_CPU}:
        return "command"
    return "memory" if kinds & {Kind.XBAR, Kind.BRIDGE, Kind.HBM, Kind.SRAM} and Kind.NOC not in kinds else "data"


def link_label(link: Link) -> str:
    """`128 GB/s, 2 mm`."""
    return f"{float(link.bw_gbs):g} GB/s, {float(link.length_mm):g} mm"


def _near(row: tuple[Box, ...], above: list[tuple[Box, ...]], edges: list[Edge]) -> tuple[Box, ...]:
    """*row* ordered by the positions of the neighbours in the rows *above*, so that fewer lines cross."""
    place = {box.key: (i + 0.5) / len(each) for each in above for i, box in enumerate(each)}

    def mean(box: Box) -> float:
        ends = [place[end] for edge in edges if box.key in (edge.a, edge.b) for end in (edge.a, edge.b) if end in place]
        return sum(ends) / len(ends) if ends else 0.5

    return tuple(sorted(row, key=mean))


def _boxes(key: str, title: str, count: int, lines: tuple[str, ...], style: Style) -> tuple[Box, ...]:
    if count > _MOST:
        return (Box(_numbered(key, 0, count), f"{count} x {title}", lines, style),)
    return tuple(Box(_numbered(key, i, count), f"{title} {i}", lines, style) for i in range(count))


def _numbered(key: str, number: int, count: int) -> str:
    return f"{key}{number}" if count <= _MOST else key


def _node_box(node: Node, key: str = "", title: str = "") -> Box:
    name = node.id.rpartition(".")[2]
    lines = [format_nbytes(node.memory.nbytes)] if node.memory else []
    lines += [f"{node.attrs[key]:g} {unit}" for key, unit in _SHOWN.items() if _is_number(node.attrs.get(key))]
    return Box(key or node.id, title or name, tuple(lines), _STYLES.get(node.kind, "compute"))


_SHOWN = {"bw_gbs": "GB/s", "latency_ns": "ns", "overhead_ns": "ns", "issue_ns": "ns", "clock_ghz": "GHz"}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _memory_lines(topology: Topology) -> tuple[str, ...]:
    """The HBM and the SRAM of a cube."""
    lines = []
    for kind in (Kind.HBM, Kind.SRAM):
        nodes = [node for node in topology.graph.nodes_of_kind(kind) if node.sip == 0 and node.cube == 0]
        nbytes = sum(node.memory.nbytes for node in nodes if node.memory)
        lines += [f"{format_nbytes(nbytes)} {kind.value.upper()}"] if nbytes else []
    return tuple(lines)


def _chiplets(topology: Topology) -> str:
    io = topology.spec.io
    return "" if isinstance(io, UnsetType) else _count(io.count, "IO chiplet")


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
