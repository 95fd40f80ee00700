"""The network of a cube in its picture: routers where they lie in the mesh, and what is beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, UnsetType, structs

from kb_topology.diagram.chart import Box, Edge
from kb_topology.diagram.content.grid import Wish, grid
from kb_topology.diagram.content.parts import Part, near, places

_SIDES: Mapping[str, tuple[float | None, float | None]] = {
    "north": (None, 0.0),
    "east": (1.0, None),
    "south": (None, 1.0),
    "west": (0.0, None),
}
"""The place of a port that faces the neighbour on that side: x from the west and y from the north, each 0 to 1."""
_ROWS_OF_PES = 2
"""Rows of routers up to which PEs stand north and south of the network. In a larger one each row has its PEs below."""

Row = tuple[Box, ...]


class _Mesh(Struct, frozen=True):
    """Rows of routers from the north, and the boxes that a line joins to each box."""

    rows: list[list[str]]
    beside: Mapping[str, list[str]]

    @property
    def row_of(self) -> dict[str, int]:
        return {router: number for number, row in enumerate(self.rows) for router in row}

    @property
    def column_of(self) -> dict[str, float]:
        return {router: float(number) for row in self.rows for number, router in enumerate(row)}

    @property
    def is_tall(self) -> bool:
        return len(self.rows) > _ROWS_OF_PES

    def rows_beside(self, key: str) -> list[int]:
        """The rows of the routers beside the box *key*."""
        return [self.row_of[each] for each in self.beside[key] if each in self.row_of]


def network_rows(
    part: Part, routers: Sequence[Box], others: Sequence[Box], above: Sequence[Row], edges: Sequence[Edge]
) -> list[Row]:
    """All rows of a cube. *above* are its rows from memories to PEs, which are the last one, without the network.

    PEs are beside their routers: north and south of a network of few rows, below each row of a larger one. Ports and
    memories at the west and the east border are at the ends of rows of *routers*, ports to the north and the south in
    the rows there, and the rest of *others* below their routers.
    """
    *above, pes = above
    if not routers:
        return [*above, pes, near(others, [*above, pes], edges)]
    sides = _ports(part)
    others = [_with_side(box, sides[box.key]) if box.key in sides else box for box in others]
    boxes = [*pes, *routers, *others, *(box for row in above for box in row)]
    mesh = _mesh(routers, [*above, pes], boxes, edges, sides)
    keys = [list(row) for row in mesh.rows]
    north = [] if mesh.is_tall else _facing(mesh, others, sides, "north", 0)
    south = [] if mesh.is_tall else _facing(mesh, others, sides, "south", len(keys) - 1)
    taken = {box.key for box in (*north, *south)}
    borders = {box.key: _border(mesh, box.key) for box in above[0]} if mesh.is_tall and above else {}
    for key, side in {**{box.key: sides.get(box.key) for box in others}, **borders}.items():
        if side and key not in taken and _take_end(keys, mesh, key, side):
            taken.add(key)
    columns = mesh.column_of
    by_key = {box.key: box for row in (*above, others) for box in row}
    by_key |= {box.key: structs.replace(box, column=columns[box.key]) for box in routers}
    rows: list[Row] = [tuple(by_key[key] for key in row) for row in keys]
    below = _below(mesh, [box for box in others if box.key not in taken])
    found = [tuple(box for box in row if box.key not in taken) for row in above]
    if mesh.is_tall:
        for number, row in enumerate(rows):
            found += [row, _pes_of_row(mesh, pes, number), near(below[number], [row], edges)]
        return found
    southern = [pe for pe in pes if _is_south(mesh.rows_beside(pe.key), len(rows))]
    found.append(_by_column(mesh, [*north, *(pe for pe in pes if pe not in southern)]))
    for number, row in enumerate(rows):
        found.append(row)
        found += [_by_column(mesh, [*south, *southern])] if number == len(rows) - 1 else []
        found.append(near(below[number], found[-1:], edges))
    return found


def _with_side(port: Box, side: str) -> Box:
    return structs.replace(port, lines=(f"to the {side}", *port.lines))


def _facing(mesh: _Mesh, boxes: Sequence[Box], sides: Mapping[str, str], side: str, row: int) -> list[Box]:
    """The ports among *boxes* that face *side* and whose routers are all in *row*."""
    return [box for box in boxes if sides.get(box.key) == side and set(mesh.rows_beside(box.key)) == {row}]


def _by_column(mesh: _Mesh, boxes: Sequence[Box]) -> Row:
    """*boxes* from west to east, by the columns of their routers. Boxes of one column stay in their order."""
    at = {box.key: [mesh.column_of[each] for each in mesh.beside[box.key] if each in mesh.row_of] for box in boxes}
    return tuple(sorted(boxes, key=lambda box: _mean(at[box.key], 0.0)))


def _mesh(
    routers: Sequence[Box], above: Sequence[Row], boxes: Sequence[Box], edges: Sequence[Edge], sides: Mapping[str, str]
) -> _Mesh:
    """The routers in rows: as ports name their sides, then near to the boxes *above*, then in the order of numbers.

    A network without crossbar is in the order of its numbers, because boxes above have no places of their own then.
    """
    place = places(above) if len(above) > _ROWS_OF_PES and above[-2] else {}
    beside: dict[str, list[str]] = {box.key: [] for box in boxes}
    wishes: list[Wish] = []
    for edge in edges:
        for here, there in ((edge.a, edge.b), (edge.b, edge.a)):
            beside[here] += [there] if there not in beside[here] else []
            wishes += [Wish(here, x=place[there])] if there in place else []
            wishes += [Wish(here, *_SIDES[sides[there]])] if there in sides else []
    keys = [box.key for box in routers]
    rows = grid(
        {key: [other for other in beside[key] if other in keys] for key in keys},
        [wish for wish in wishes if wish.router in keys],
    )
    return _Mesh(rows, beside)


def _below(mesh: _Mesh, boxes: Sequence[Box]) -> list[list[Box]]:
    """The *boxes* that stand below each row of routers."""
    found: list[list[Box]] = [[] for _ in mesh.rows]
    for box in boxes:
        at = mesh.rows_beside(box.key)
        found[int(sum(at) / len(at)) if at else -1].append(box)
    return found


def _pes_of_row(mesh: _Mesh, pes: Sequence[Box], row: int) -> Row:
    """The PEs whose routers are in *row*, in columns east of their routers, so that links to the south pass them."""
    found: dict[float, list[Box]] = {}
    for pe in pes:
        at = [mesh.column_of[each] for each in mesh.beside[pe.key] if each in mesh.row_of]
        if int(_mean(mesh.rows_beside(pe.key), len(mesh.rows) - 1)) == row:
            found.setdefault(_mean(at, 0.0), []).append(pe)
    return tuple(
        structs.replace(pe, column=column + (number + 1) / (len(several) + 1))
        for column, several in sorted(found.items())
        for number, pe in enumerate(several)
    )


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _is_south(rows: Sequence[int], n_rows: int) -> bool:
    """Whether a PE beside routers in *rows* stands south of the network."""
    return bool(rows) and 2 * sum(rows) > len(rows) * (n_rows - 1)


def _border(mesh: _Mesh, key: str) -> str | None:
    """The side of the mesh on which all routers of the box *key* lie; None where they are on none."""
    columns = {mesh.column_of[each] for each in mesh.beside[key] if each in mesh.row_of}
    if columns == {0.0}:
        return "west"
    return "east" if columns == {float(len(mesh.rows[0]) - 1)} else None


def _take_end(rows: list[list[str]], mesh: _Mesh, box: str, side: str) -> bool:
    """Puts *box* at a free end of a row, beside its first router. Returns False where no end is free."""
    at = [each for each in mesh.beside[box] if each in mesh.row_of]
    if not at or (len(mesh.beside[box]) != 1 and len(at) != len(mesh.beside[box])):
        return False
    row = rows[mesh.row_of[at[0]]]
    if row[0] == at[0] and not (side == "east" or (side != "west" and len(row) == 1)):
        row.insert(0, box)
    elif row[-1] == at[0] and side != "west":
        row.append(box)
    else:
        return False
    return True


def _ports(part: Part) -> dict[str, str]:
    """The side that each port of the cube faces, by the id of the port in the cube."""
    sip = part.topology.spec.sip
    mesh = None if isinstance(sip, UnsetType) else sip.cube_mesh
    named = {side: getattr(mesh, side) for side in _SIDES} if mesh else {}
    return {re.sub(r"\[(\d+)\]", r"\1", name): side for side, name in named.items() if name}
