"""The places of the routers of a network on chip: rows from the north, columns from the west."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

Cell = tuple[int, int]
Neighbours = Mapping[str, Sequence[str]]


class Wish(Struct, frozen=True):
    """The wished place of a router: `x` 0 in the west and 1 in the east, `y` 0 in the north and 1 in the south."""

    router: str
    x: float | None = None
    y: float | None = None


def grid(neighbours: Neighbours, wishes: Sequence[Wish]) -> list[list[str]]:
    """Rows of routers, so that every link joins two routers side by side or one below the other.

    A mesh can be laid out in several ways, mirrored and turned. The way that is nearest to *wishes* is taken, and of
    equal ways the first in the order of the routers. Routers that form no mesh stand in one row, ordered by their
    wishes.
    """
    routers = list(neighbours)
    distances = {router: _distances(router, neighbours) for router in routers}
    found: list[tuple[float, list[int], dict[str, Cell]]] = []
    least = min((len(each) for each in neighbours.values()), default=0)
    for a in (router for router in routers if len(neighbours[router]) == least):
        for b in routers:
            cells = _cells(distances[a], distances[b], neighbours)
            if cells is not None:
                order = [routers.index(router) for router in sorted(routers, key=cells.__getitem__)]
                found.append((round(_unhappiness(cells, wishes), 6), order, cells))
    if not found:
        return [sorted(routers, key=lambda router: _mean([w.x for w in wishes if w.router == router]))]
    _, _, places = min(found, key=lambda each: each[:2])
    n_rows = max(row for row, _ in places.values()) + 1
    return [sorted((r for r in routers if places[r][0] == row), key=lambda r: places[r]) for row in range(n_rows)]


def _distances(start: str, neighbours: Neighbours) -> dict[str, int]:
    found = {start: 0}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


def _cells(a: Mapping[str, int], b: Mapping[str, int], neighbours: Neighbours) -> dict[str, Cell] | None:
    """The cells of a mesh with router *a* in the north-west and router *b* in the north-east, by distance from both.

    None where the routers form no such mesh.
    """
    if len(a) != len(neighbours):
        return None
    width = max((count for router, count in a.items() if b[router] == 0), default=0)
    cells: dict[str, Cell] = {}
    for router in neighbours:
        doubled_row, doubled_col = a[router] + b[router] - width, a[router] - b[router] + width
        if doubled_row % 2 or doubled_row < 0 or doubled_col < 0:
            return None
        cells[router] = doubled_row // 2, doubled_col // 2
    n_rows, n_cols = (max(cell[axis] for cell in cells.values()) + 1 for axis in (0, 1))
    if not len(set(cells.values())) == len(cells) == n_rows * n_cols:
        return None
    for router, others in neighbours.items():
        row, col = cells[router]
        if any(abs(cells[other][0] - row) + abs(cells[other][1] - col) != 1 for other in others):
            return None
    return cells


def _unhappiness(cells: Mapping[str, Cell], wishes: Sequence[Wish]) -> float:
    rows, cols = (max(cell[axis] for cell in cells.values()) for axis in (0, 1))
    total = 0.0
    for wish in wishes:
        row, col = cells[wish.router]
        total += 0.0 if wish.x is None else abs(wish.x - (col / cols if cols else 0.5))
        total += 0.0 if wish.y is None else abs(wish.y - (row / rows if rows else 0.5))
    return total


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.5
