"""The content of each picture of a topology: boxes in rows, and the labels of the edges between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

from msgspec import UnsetType

from kb_topology.chip.graph import Node
from kb_topology.chip.spec import NodeKind as Kind
from kb_topology.diagram.chart import Box, Chart, Edge
from kb_topology.diagram.content.cube_view import cube_rows
from kb_topology.diagram.content.facts import facts
from kb_topology.diagram.content.parts import MOST, Part, count, memory_lines, numbered
from kb_topology.diagram.content.pe_view import pe_rows
from kb_topology.diagram.content.said_once import say_once
from kb_topology.diagram.content.sip_view import sip_picture
from kb_topology.diagram.loads import Loads
from kb_topology.text.sentences import did_you_mean
from kb_topology.topology import Topology

View = Literal["system", "sip", "cube", "pe"]
VIEWS: tuple[View, ...] = get_args(View)
_NAMES = {"system": "system", "sip": "SIP", "cube": "cube", "pe": "PE"}
_NOTE = "Bandwidth is of each link and direction, length is of the wire."
_PE_NOTE = "Arrows are wires: commands and tiles, free of time. Links have bandwidth (each direction) and length."
_MEASURED = "Labels of lines: bandwidth of each link and direction, length, time in service of the busier direction."


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
    subtitle, rows, edges, own_facts = make(part)
    edges, said_once = say_once(rows, edges)
    full = tuple(tuple(row) for row in rows if tuple(row))
    note = _PE_NOTE if view == "pe" else _NOTE
    title = f"{topology.name}: {of or _NAMES[view]}"
    if loads is not None:
        title, note = f"{title} in {loads.name}", _MEASURED
        copies = len(_parts(topology, view))
        subtitle += f"; the busiest and the mean of {count(copies, _NAMES[view])}" if copies > 1 and not of else ""
    told = (*own_facts, *said_once, *(() if view == "pe" else facts(topology)))
    return Chart(title, subtitle, full, tuple(edges), note, loads is not None, told)


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


Content = tuple[str, list[tuple[Box, ...]], list[Edge], tuple[str, ...]]
"""The subtitle, rows of boxes, the lines between them, and sentences on what neither shows."""


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
    return subtitle, [tuple(hosts), tuple(others), sips], part.edges(box_of), ()


def _sip(part: Part) -> Content:
    topology = part.topology
    spec, cubes = topology.spec, topology.spec.cubes_per_sip
    chiplets = 0 if isinstance(spec.io, UnsetType) else spec.io.count
    inside = [node for node in topology.graph.nodes.values() if node.sip == 0 and node.io == 0]
    io = _copies(part, "io", "IO chiplet", chiplets, (", ".join(dict.fromkeys(node.kind.value for node in inside)),))
    pes = spec.cube.pe_layout.count if spec.cube.pe_layout else 0
    mesh = None if isinstance(spec.sip, UnsetType) else spec.sip.cube_mesh
    shape = f" in {mesh.rows} x {mesh.cols}" if mesh else ""
    found = sip_picture(part, io)
    return f"{count(cubes, 'cube')}{shape}, {count(cubes * pes, 'PE')}", found.rows, found.edges, found.facts


def _cube(part: Part) -> Content:
    pes = part.topology.spec.cube.pe_layout.count if part.topology.spec.cube.pe_layout else 0
    rows, edges = cube_rows(part, _copies(part, "pe", "PE", pes, (), partial(_slow_lines, part)))
    return ", ".join((count(pes, "PE"), *memory_lines(part.topology))), rows, edges, ()


def _pe(part: Part) -> Content:
    rows, edges = pe_rows(part)
    pes = len(part.topology.graph.pe_ids)
    factor = part.topology.slow_factor(".".join(part.names))
    alike = sum(part.topology.slow_factor(pe_id) == factor for pe_id in part.topology.graph.pe_ids)
    subtitle = part.of or ("the only PE" if pes == 1 else f"{alike} PEs like this one")
    slow = f"; slow by {factor:g}, with the times and rates of a PE that is not" if factor != 1 else ""
    return subtitle + slow, rows, edges, ()


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
    nodes: list[list[Node]] = [[] for _ in range(copies)]
    for node in part.shown:
        number = getattr(node, key)
        if number is not None:
            nodes[number].append(node)
    if copies > MOST:
        every = [node for each in nodes for node in each]
        return (part.group_box(every, key, f"{copies} x {title}", lines, key),)
    return tuple(
        part.group_box(nodes[number], f"{key}{number}", f"{title} {number}", (*lines, *own_lines(number)), key)
        for number in range(copies)
    )
