"""The picture of a SIP: its IO chiplets in the north, and its cubes where they lie in the mesh."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct, UnsetType, structs

from kb_topology.chip.graph import Node
from kb_topology.chip.spec import MeshTemplate
from kb_topology.diagram.chart import Box, Edge, percent
from kb_topology.diagram.content.parts import MOST, Part, count, memory_lines, numbered

_MOST_COLUMNS, _MOST_ROWS = 18, 24
"""Columns and rows of cubes that are drawn. Of more, those in the middle are one column and one row."""
_NO_MESH = 8
"""Cubes in a row where a SIP has no mesh."""
_RINGS = "Rows and columns are rings. The links from their last cubes back to the first are not drawn"


class SipPicture(Struct, frozen=True):
    """Rows of boxes, the lines between them, and sentences on what no box and no line shows."""

    rows: list[tuple[Box, ...]]
    edges: list[Edge]
    facts: tuple[str, ...]


class _Cell(Struct, frozen=True):
    """The cubes of one box, and the place of the box among the rows and columns of boxes."""

    row: int
    column: int
    cubes: list[int]

    @property
    def key(self) -> str:
        return f"cube{self.cubes[0]}" if len(self.cubes) == 1 else f"cubes{self.cubes[0]}"


def sip_picture(part: Part, io: Sequence[Box]) -> SipPicture:
    """The picture of the SIP of *part*, whose IO chiplets have the boxes *io*.

    More than MOST cubes are small boxes, which show their numbers alone, and `facts` say what all of them have.
    """
    spec = part.topology.spec
    mesh = None if isinstance(spec.sip, UnsetType) else spec.sip.cube_mesh
    cells = _cells(spec.cubes_per_sip, mesh)
    is_small = spec.cubes_per_sip > MOST
    pes = spec.cube.pe_layout.count if spec.cube.pe_layout else 0
    lines = (*((count(pes, "PE"),) if pes else ()), *memory_lines(part.topology))
    rows: dict[int, list[Box]] = defaultdict(list)
    nodes: list[list[Node]] = [[] for _ in range(spec.cubes_per_sip)]
    for node in part.shown:
        if node.cube is not None:
            nodes[node.cube].append(node)
    for cell in cells:
        box = _box(part, cell, [node for cube in cell.cubes for node in nodes[cube]], lines, is_small)
        rows[cell.row].append(structs.replace(box, column=float(cell.column)) if mesh else box)
    edges = _edges(part, cells)
    facts: tuple[str, ...] = ()
    if is_small:
        edges, facts = _short(edges, cells, mesh)
        facts += (f"Each cube: {', '.join(lines)}.",) if lines else ()
    return SipPicture([tuple(io), *map(tuple, rows.values())], edges, facts)


def _cells(cubes: int, mesh: MeshTemplate | None) -> list[_Cell]:
    n_columns = mesh.cols if mesh else min(cubes, _NO_MESH)
    columns = _numbers(n_columns, _MOST_COLUMNS)
    rows = _numbers(-(-cubes // n_columns), _MOST_ROWS)
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for cube in range(cubes):
        found[rows[cube // n_columns], columns[cube % n_columns]].append(cube)
    return [_Cell(row, column, inside) for (row, column), inside in sorted(found.items())]


def _numbers(places: int, most: int) -> list[int]:
    """The number of the drawn row or column of each of *places*. Of more than *most*, those in the middle share one."""
    before = most // 2
    after = most - before - 1
    return [at if places <= most else min(at, before) + max(at - (places - after) + 1, 0) for at in range(places)]


def _box(part: Part, cell: _Cell, nodes: Sequence[Node], lines: tuple[str, ...], is_small: bool) -> Box:
    first, last, many = cell.cubes[0], cell.cubes[-1], len(cell.cubes) > 1
    title = f"{len(cell.cubes)} cubes from cube {first} to cube {last}" if many else f"cube {first}"
    box = part.group_box(nodes, cell.key, title, lines, "cube")
    if not is_small:
        return box
    short = (percent(box.heat.top),) if box.heat else ()
    return structs.replace(box, is_small=True, title="..." if many else str(first), lines=short)


def _edges(part: Part, cells: Sequence[_Cell]) -> list[Edge]:
    spec = part.topology.spec
    chiplets = 0 if isinstance(spec.io, UnsetType) else spec.io.count
    key_of = {cube: cell.key for cell in cells for cube in cell.cubes}

    def box_of(node: Node) -> str:
        return numbered("io", node.io or 0, chiplets) if node.cube is None else key_of[node.cube]

    return part.edges(box_of)


def _short(
    edges: Sequence[Edge], cells: Sequence[_Cell], mesh: MeshTemplate | None
) -> tuple[list[Edge], tuple[str, ...]]:
    """The lines between small boxes, which have no labels, and sentences on their labels and on lines left out."""
    at = {cell.key: cell for cell in cells}
    between = [edge for edge in edges if edge.a in at and edge.b in at]
    to_io = [edge for edge in edges if not (edge.a in at and edge.b in at)]
    rings = [edge for edge in between if mesh and mesh.torus and not _is_beside(at[edge.a], at[edge.b])]
    shown = [*to_io, *(edge for edge in between if not (mesh and mesh.torus) or _is_beside(at[edge.a], at[edge.b]))]
    facts: list[str] = []
    for name, of in (("between cubes", between), ("to an IO chiplet", to_io)):
        labels = dict.fromkeys(", ".join(edge.label) for edge in of)
        facts += [f"Each link {name}: {' or '.join(labels)}."] if labels else []
    if rings:
        busy = [edge.heat.top for edge in rings if edge.heat]
        facts.append(f"{_RINGS}; the busiest has {percent(max(busy))}." if busy else f"{_RINGS}.")
    elided = sum(len(cell.cubes) for cell in cells if len(cell.cubes) > 1)
    facts += [f"... stands for cubes in the middle: {elided} cubes in all."] if elided else []
    return [structs.replace(edge, says="nothing") for edge in shown], tuple(facts)


def _is_beside(a: _Cell, b: _Cell) -> bool:
    return abs(a.row - b.row) + abs(a.column - b.column) <= 1
