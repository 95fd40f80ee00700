"""Targets of a launch: from PE ids to cubes with their PEs, and back.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kb_engine.block.block_directory import Cube
from kb_messages import CubeTarget, KernelError
from kb_topology import Graph


def targets_of(graph: Graph, pe_ids: Iterable[str]) -> tuple[CubeTarget, ...]:
    """Returns one target for each cube of *pe_ids*, in the order of their first PEs. A whole cube is `all`."""
    places = graph.pe_places
    wanted: dict[Cube, set[int]] = {}
    for pe_id in pe_ids:
        cube, pe = places[pe_id]
        wanted.setdefault(cube, set()).add(pe)
    sizes = Counter(cube for cube, _ in places.values())
    return tuple(
        CubeTarget(sip=cube[0], cube=cube[1], pes="all" if len(pes) == sizes[cube] else tuple(sorted(pes)))
        for cube, pes in wanted.items()
    )


def pes_of(graph: Graph, targets: Sequence[CubeTarget]) -> list[str]:
    """Returns the existing PEs that *targets* name, in order. Raises KernelError for a PE that is named twice."""
    found: dict[str, None] = {}
    for pe_id, there in _named(graph, targets):
        if pe_id in found:
            raise KernelError("launch", f"{pe_id} twice", "each PE at most once")
        if there:
            found[pe_id] = None
    return list(found)


def check_there(graph: Graph, targets: Sequence[CubeTarget]) -> None:
    """Raises KernelError when *targets* name a PE or a cube that does not exist."""
    for pe_id, there in _named(graph, targets):
        if not there:
            ids = graph.pe_ids
            raise KernelError("launch", f"a target {pe_id}", f"PEs from {ids[0]} to {ids[-1]}")


def check_form(targets: Sequence[CubeTarget]) -> None:
    """Raises KernelError unless *targets* is a list of targets whose `pes` are each `all` or a list of PE numbers."""
    given: object = targets
    if not isinstance(given, (tuple, list)) or not all(isinstance(each, CubeTarget) for each in given):
        raise KernelError("launch", f"targets={given!r}", "a list of CubeTarget(sip=..., cube=..., pes=...)")
    for target in targets:
        pes: object = target.pes  # a Struct checks no types
        if pes != "all" and not (isinstance(pes, (tuple, list)) and all(type(pe) is int for pe in pes)):
            fix = f"write `pes=({pes},)`" if type(pes) is int else ""
            got = f"pes={pes!r} as the target in sip{target.sip}.cube{target.cube}"
            raise KernelError("launch", got, "'all' or a tuple of PE numbers", fix)


def _named(graph: Graph, targets: Sequence[CubeTarget]) -> Iterator[tuple[str, bool]]:
    """Yields the id of every PE that *targets* name, and whether it exists. A missing cube counts as one missing PE."""
    check_form(targets)
    cubes: dict[Cube, dict[int, str]] = {}
    for pe_id, (cube, pe) in graph.pe_places.items():
        cubes.setdefault(cube, {})[pe] = pe_id
    for target in targets:
        name, pes = f"sip{target.sip}.cube{target.cube}", cubes.get((target.sip, target.cube), {})
        if not pes:
            yield name, False
        for pe in pes if target.pes == "all" else target.pes if pes else ():
            yield pes.get(pe, f"{name}.pe{pe}"), pe in pes
