"""The picture of a cube: memory in the north, then the crossbar, the PEs, and the network's routers where they lie."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import UnsetType

from kb_topology.chip.graph import Node
from kb_topology.chip.spec import NodeKind as Kind
from kb_topology.diagram.chart import Box, Edge
from kb_topology.diagram.grid import Wish, grid
from kb_topology.diagram.parts import MOST, Part, near, places

_SIDES: Mapping[str, tuple[float | None, float | None]] = {
    "north": (None, 0.0),
    "east": (1.0, None),
    "south": (None, 1.0),
    "west": (0.0, None),
}
"""The place of a port that faces the neighbour on that side: x from the west and y from the north, each 0 to 1."""


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
        return part.local(node.id) if len(copies[name]) <= MOST else name

    boxes: dict[Kind, list[Box]] = {kind: [] for kind in Kind}
    for name, nodes in copies.items():
        several = [[node] for node in nodes] if len(nodes) <= MOST else [nodes]
        for each in several:
            key = box_of(each[0])
            boxes[each[0].kind].append(part.node_box(each, key, key if len(each) == 1 else f"{len(each)} x {name}"))
    edges = part.edges(box_of)
    rows: list[tuple[Box, ...]] = []
    for row in (boxes.pop(Kind.HBM), boxes.pop(Kind.XBAR) + boxes.pop(Kind.BRIDGE), list(of_pe)):
        rows.append(near(row, rows, edges))
    routers, others = boxes.pop(Kind.NOC), [box for row in boxes.values() for box in row]
    return [*rows[:-1], *_network(part, routers, others, rows, edges)], edges


def _network(
    part: Part, routers: list[Box], others: list[Box], above: Sequence[tuple[Box, ...]], edges: list[Edge]
) -> list[tuple[Box, ...]]:
    """The rows from the row of the PEs, which is the last one *above*, to the south.

    Each PE is north or south of the network. Ports are at the ends of rows of *routers*, and the rest of *others* below
    their routers.
    """
    *above, pes = above
    if not routers:
        return [pes, near(others, [*above, pes], edges)]
    sides, place = _ports(part), places([*above, pes])
    beside: dict[str, list[str]] = {box.key: [] for box in (*pes, *routers, *others)}
    wishes: list[Wish] = []
    for edge in edges:
        for here, there in ((edge.a, edge.b), (edge.b, edge.a)):
            if here in beside:
                beside[here] += [there] if there not in beside[here] else []
                wishes += [Wish(here, x=place[there])] if there in place else []
                wishes += [Wish(here, *_SIDES[sides[there]])] if there in sides else []
    keys = {box.key for box in routers}
    mesh = grid(
        {key: [other for other in beside[key] if other in keys] for key in beside if key in keys},
        [wish for wish in wishes if wish.router in keys],
    )
    rows: list[list[str]] = [list(row) for row in mesh]
    row_of = {router: number for number, row in enumerate(mesh) for router in row}
    below: list[list[Box]] = [[] for _ in rows]
    for box in sorted(others, key=lambda each: each.key not in sides):
        at = [row_of[router] for router in beside[box.key] if router in row_of]
        if not (box.key in sides and _take_end(rows, row_of, beside[box.key], box.key, sides[box.key])):
            below[int(sum(at) / len(at)) if at else -1].append(box)
    by_key = {box.key: box for box in (*routers, *others)}
    south = [pe for pe in pes if _is_south([row_of[each] for each in beside[pe.key] if each in row_of], len(rows))]
    found = [tuple(pe for pe in pes if pe not in south)]
    for keys_of_row, rest in zip(rows, below, strict=True):
        found.append(tuple(by_key[key] for key in keys_of_row))
        found += [tuple(south)] if keys_of_row is rows[-1] else []
        found.append(near(rest, found[-1:], edges))
    return found


def _is_south(rows: Sequence[int], n_rows: int) -> bool:
    """Whether a PE beside routers in *rows* stands south of the network."""
    return bool(rows) and 2 * sum(rows) > len(rows) * (n_rows - 1)


def _take_end(rows: list[list[str]], row_of: Mapping[str, int], beside: list[str], port: str, side: str) -> bool:
    """Puts *port*, beside one router, at a free end of a row. Returns False where no end is free."""
    if len(beside) != 1 or beside[0] not in row_of:
        return False
    row = rows[row_of[beside[0]]]
    if row[0] == beside[0] and not (side == "east" or (side != "west" and len(row) == 1)):
        row.insert(0, port)
    elif row[-1] == beside[0] and side != "west":
        row.append(port)
    else:
        return False
    return True


def _ports(part: Part) -> dict[str, str]:
    """The side that each port of the cube faces, by the id of the port in the cube."""
    sip = part.topology.spec.sip
    mesh = None if isinstance(sip, UnsetType) else sip.cube_mesh
    named = {side: getattr(mesh, side) for side in _SIDES} if mesh else {}
    return {re.sub(r"\[(\d+)\]", r"\1", name): side for side, name in named.items() if name}
