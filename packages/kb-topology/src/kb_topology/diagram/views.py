"""The content of each picture of a topology: boxes in rows, and the labels of the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, get_args

from msgspec import UnsetType

from kb_topology.chip.graph import Node
from kb_topology.chip.spec import NodeKind as Kind
from kb_topology.diagram.chart import Box, Chart, Edge
from kb_topology.diagram.cube_view import cube_rows
from kb_topology.diagram.facts import facts
from kb_topology.diagram.loads import Loads
from kb_topology.diagram.parts import MOST, Part, count, memory_lines, numbered
from kb_topology.diagram.pe_view import pe_rows
from kb_topology.text.sentences import did_you_mean
from kb_topology.topology import Topology

View = Literal["system", "sip", "cube", "pe"]
VIEWS: tuple[View, ...] = get_args(View)
_NAMES = {"system": "system", "sip": "SIP", "cube": "cube", "pe": "PE"}
_NOTE = "Bandwidth is per direction and line, length is of the wire."
_PE_NOTE = "Arrows are wires: commands and tiles, free of time. Links have bandwidth (each direction) and length."
_MEASURED = "Labels of lines: bandwidth per direction, length, time in service of the busier direction. Point for more."


def chart(topology: Topology, view: View, of: str = "", loads: Loads | None = None) -> Chart:
    """The *view* of *topology*, of the part *of* (`sip1`, `sip0.cube3`, `sip0.cube3.pe5`), coloured by *loads*.

    Without *of* it shows the first SIP, cube or PE, because all are equal, and the loads of all of them.

    Raises TopologyError for the view of a PE of a chip without PEs, and for a part that does not exist.
    """
    if view == "pe" and not topology.graph.pe_ids:
        raise topology.error(("cube",), "a chip without PEs", "pe_layout and pe_template", "choose another view")
    _check(topology, view, of)
    part = Part(topology, view, of, loads)
    make = {"system": _system, "sip": _sip, "cube": _cube, "pe": _pe}[view]
    subtitle, rows, edges = make(part)
    full = tuple(tuple(row) for row in rows if tuple(row))
    note = _PE_NOTE if view == "pe" else _NOTE
    title = f"{topology.name}: {of or _NAMES[view]}"
    if loads is not None:
        title, note = f"{title} in {loads.name}", _MEASURED
        copies = len(_parts(topology, view))
        subtitle += f"; the busiest and the mean of {count(copies, _NAMES[view])}" if copies > 1 and not of else ""
    return Chart(title, subtitle, full, tuple(edges), note, loads is not None, () if view == "pe" else facts(topology))


def _parts(topology: Topology, view: View) -> list[str]:
    """The ids of all SIPs, cubes or PEs of *topology*; none for the system."""
    level = VIEWS.index(view)
    names = [node_id.split(".") for node_id in topology.graph.nodes] if level else []
    found = (each[:level] for each in names if len(each) > level and each[level - 1].startswith(view))
    return list(dict.fromkeys(".".join(each) for each in found))


def _check(topology: Topology, view: View, of: str) -> None:
    parts = _parts(topology, view)
    if of and view == "system":
        raise topology.error((), f"the part {of!r} of the whole system", "no part", "leave it out, or choose a view")
    if of and of not in parts:
        needs = f"the id of a {_NAMES[view]}, like {parts[0]}" if parts else f"a chip with a {_NAMES[view]}"
        raise topology.error((), f"{of!r}", needs, did_you_mean(of, parts))


Content = tuple[str, Iterable[Iterable[Box]], list[Edge]]


def _system(part: Part) -> Content:
    topology = part.topology
    spec, nodes = topology.spec, topology.graph.nodes.values()
    outside = [node for node in nodes if node.sip is None]
    hosts = [part.node_box([node], node.id, node.id) for node in outside if node.kind is Kind.HOST]
    others = [part.node_box([node], node.id, node.id) for node in outside if node.kind is not Kind.HOST]
    pes = len(topology.graph.pe_ids)
    chiplets = "" if isinstance(spec.io, UnsetType) else count(spec.io.count, "IO chiplet")
    lines = tuple(filter(None, (f"{count(spec.cubes_per_sip, 'cube')}, {count(pes // spec.sips, 'PE')}", chiplets)))
    sips = _copies(part, "sip", "SIP", spec.sips, lines)

    def box_of(node: Node) -> str:
        return node.id if node.sip is None else numbered("sip", node.sip, spec.sips)

    subtitle = f"{count(spec.sips, 'SIP')}, {count(spec.sips * spec.cubes_per_sip, 'cube')}, {count(pes, 'PE')}"
    return subtitle, (hosts, others, sips), part.edges(box_of)


def _sip(part: Part) -> Content:
    topology = part.topology
    spec, cubes = topology.spec, topology.spec.cubes_per_sip
    chiplets = 0 if isinstance(spec.io, UnsetType) else spec.io.count
    inside = [node for node in topology.graph.nodes.values() if node.sip == 0 and node.io == 0]
    io = _copies(part, "io", "IO chiplet", chiplets, (", ".join(dict.fromkeys(node.kind.value for node in inside)),))
    pes = spec.cube.pe_layout.count if spec.cube.pe_layout else 0
    lines = (*((count(pes, "PE"),) if pes else ()), *memory_lines(topology))
    mesh = None if isinstance(spec.sip, UnsetType) else spec.sip.cube_mesh
    columns = mesh.cols if mesh else min(cubes, 8)
    boxes = [_copy(part, "cube", "cube", i, lines) for i in range(cubes)]
    rows = [tuple(boxes[i : i + columns]) for i in range(0, cubes, columns)]

    def box_of(node: Node) -> str:
        return f"cube{node.cube}" if node.io is None else numbered("io", node.io, chiplets)

    shape = f" in {mesh.rows} x {mesh.cols}" if mesh else ""
    return f"{count(cubes, 'cube')}{shape}, {count(cubes * pes, 'PE')}", (io, *rows), part.edges(box_of)


def _cube(part: Part) -> Content:
    pes = part.topology.spec.cube.pe_layout.count if part.topology.spec.cube.pe_layout else 0
    rows, edges = cube_rows(part, _copies(part, "pe", "PE", pes, (), partial(_slow_lines, part)))
    return ", ".join((count(pes, "PE"), *memory_lines(part.topology))), rows, edges


def _pe(part: Part) -> Content:
    rows, edges = pe_rows(part)
    pes = len(part.topology.graph.pe_ids)
    factor = part.topology.slow_factor(".".join(part.names))
    alike = sum(part.topology.slow_factor(pe_id) == factor for pe_id in part.topology.graph.pe_ids)
    subtitle = part.of or ("the only PE" if pes == 1 else f"{alike} PEs like this one")
    slow = f"; slow by {factor:g}, with the times and rates of a PE that is not" if factor != 1 else ""
    return subtitle + slow, rows, edges


def _slow_lines(part: Part, pe: int) -> tuple[str, ...]:
    """A line for PE number *pe* of a cube, if the PE is slow."""
    factor = part.topology.slow_factor(".".join((*part.names, f"pe{pe}")))
    return (f"slow by {factor:g}",) if factor != 1 else ()


def _copies(
    part: Part,
    key: str,
    title: str,
    copies: int,
    lines: tuple[str, ...],
    own_lines: Callable[[int], tuple[str, ...]] = lambda number: (),
) -> tuple[Box, ...]:
    if copies > MOST:
        box = part.group_box(lambda node: getattr(node, key) is not None, key, f"{copies} x {title}", lines, key)
        return (box,)
    return tuple(_copy(part, key, title, number, (*lines, *own_lines(number))) for number in range(copies))


def _copy(part: Part, key: str, title: str, number: int, lines: tuple[str, ...]) -> Box:
    return part.group_box(lambda node: getattr(node, key) == number, f"{key}{number}", f"{title} {number}", lines, key)
