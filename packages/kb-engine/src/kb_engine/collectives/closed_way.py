"""The order of cubes around a chip: a closed way from neighbour to neighbour where the mesh has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kb_topology import Topology

Cube = tuple[int, int]
"""The numbers of a SIP and of a cube in the SIP."""

_MOST_STEPS: Final = 20_000
"""The most steps of the search. Source: assumed; a mesh of 8 x 8 cubes takes a few hundred."""


def around(topology: Topology, cubes: Sequence[Cube]) -> list[Cube]:
    """*cubes*, SIP after SIP, each SIP by a closed way of neighbours where one is found, else by an open way.

    A way begins at the first cube of its SIP. Where neither is found, the cubes keep their order.
    """
    neighbours = _neighbours(topology)
    found: list[Cube] = []
    for sip in dict.fromkeys(sip for sip, _ in cubes):
        own = [cube for cube in cubes if cube[0] == sip]
        near = {cube: [each for each in own if each in neighbours.get(cube, ())] for cube in own}
        found += _way(own, near, closed=True) or _way(own, near, closed=False) or own
    return found


def _neighbours(topology: Topology) -> dict[Cube, set[Cube]]:
    """The cubes to which a link leads from each cube."""
    nodes = topology.graph.nodes
    found: dict[Cube, set[Cube]] = {}
    for link in topology.graph.links:
        ends = [nodes[each] for each in (link.src, link.dst)]
        places = [(each.sip, each.cube) for each in ends if each.sip is not None and each.cube is not None]
        if len(places) == 2 and places[0] != places[1]:
            found.setdefault(places[0], set()).add(places[1])
    return found


def _way(cubes: Sequence[Cube], near: Mapping[Cube, Iterable[Cube]], closed: bool) -> list[Cube]:
    """A way over all *cubes* from the first one on; with *closed*, the last is a neighbour of the first. Or [].

    A search in depth, which goes first to the neighbours that have the fewest ways on.
    """
    if len(cubes) < 3:
        return list(cubes) if len(cubes) < 2 or cubes[1] in near[cubes[0]] else []
    way, on_way = [cubes[0]], {cubes[0]}
    left = [_ways_on(cubes[0], near, on_way)]
    for _ in range(_MOST_STEPS):
        if not left:
            return []
        if len(way) == len(cubes) and (not closed or way[0] in near[way[-1]]):
            return _turned(way) if closed else way
        if len(way) < len(cubes) and left[-1]:
            cube = left[-1].pop(0)
            way.append(cube)
            on_way.add(cube)
            left.append(_ways_on(cube, near, on_way))
        else:
            left.pop()
            on_way.discard(way.pop())
    return []


def _ways_on(cube: Cube, near: Mapping[Cube, Iterable[Cube]], on_way: set[Cube]) -> list[Cube]:
    """The neighbours of *cube* that are not *on_way*, those with the fewest further neighbours first."""
    ahead = [each for each in near[cube] if each not in on_way]
    return sorted(ahead, key=lambda each: (sum(other not in on_way for other in near[each]), each))


def _turned(way: list[Cube]) -> list[Cube]:
    """The closed *way* in the direction whose last cube has the lower number: it ends near the edge where it began."""
    return way if way[-1] < way[1] else [way[0], *way[:0:-1]]
