"""Targets: which PEs a message is for, and its parts for the SIPs or cubes that they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from kb_engine.block.block_directory import Cube
from kb_engine.program.tensors import Tensor, TensorRef
from kb_messages import CubeTarget, HostMessage, KernelError, KernelLaunch
from kb_topology import Graph, Topology

KeyT = TypeVar("KeyT")


def split(
    message: HostMessage, key: Callable[[Cube], KeyT], cube_of: Callable[[str], Cube]
) -> list[tuple[KeyT, HostMessage]]:
    """*message* in parts, each for the targets whose cubes have one *key*, in order of their first targets.

    *cube_of* is asked where the PEs are that a message names by their ids.
    """
    if isinstance(message, KernelLaunch):
        targets: dict[KeyT, list[CubeTarget]] = {}
        for target in message.targets:
            targets.setdefault(key((target.sip, target.cube)), []).append(target)
        return [(each, replace(message, targets=tuple(mine))) for each, mine in targets.items()]
    pes: dict[KeyT, list[str]] = {}
    for pe in message.pes:
        pes.setdefault(key(cube_of(pe)), []).append(pe)
    return [(each, replace(message, pes=tuple(mine))) for each, mine in pes.items()]


def targets_of(graph: Graph, pe_ids: Iterable[str]) -> tuple[CubeTarget, ...]:
    """The PEs *pe_ids* by cube, in the order in which the cubes come; a whole cube is one target, `all` its PEs."""
    wanted: dict[Cube, set[int]] = {}
    for pe_id in pe_ids:
        cube, pe = _place(graph, pe_id)
        wanted.setdefault(cube, set()).add(pe)
    sizes = dict.fromkeys(wanted, 0)
    for pe_id in graph.pe_ids:
        cube, _ = _place(graph, pe_id)
        if cube in sizes:
            sizes[cube] += 1
    return tuple(
        CubeTarget(sip=cube[0], cube=cube[1], pes="all" if len(pes) == sizes[cube] else tuple(sorted(pes)))
        for cube, pes in wanted.items()
    )


def pes_of(graph: Graph, targets: Iterable[CubeTarget]) -> list[str]:
    """The PEs that *targets* name and that are there, in order. Raises KernelError for a PE that is named twice."""
    found: dict[str, None] = {}
    for pe_id, there in _named(graph, targets):
        if pe_id in found:
            raise KernelError("launch", f"{pe_id} twice", "each PE at most once")
        if there:
            found[pe_id] = None
    return list(found)


def check_there(graph: Graph, targets: Iterable[CubeTarget]) -> None:
    """Raise KernelError for a PE among *targets* that is not there."""
    for pe_id, there in _named(graph, targets):
        if not there:
            ids = graph.pe_ids
            raise KernelError("launch", f"a target {pe_id}", f"PEs from {ids[0]} to {ids[-1]}")


def _named(graph: Graph, targets: Iterable[CubeTarget]) -> Iterator[tuple[str, bool]]:
    """The id of every PE that *targets* name, and whether it is there. A cube that is not counts as one."""
    cubes: dict[Cube, dict[int, str]] = {}
    for pe_id in graph.pe_ids:
        cube, pe = _place(graph, pe_id)
        cubes.setdefault(cube, {})[pe] = pe_id
    for target in targets:
        name, pes = f"sip{target.sip}.cube{target.cube}", cubes.get((target.sip, target.cube), {})
        if not pes:
            yield name, False
        for pe in pes if target.pes == "all" else target.pes if pes else ():
            yield pes.get(pe, f"{name}.pe{pe}"), pe in pes


def owning_cubes(topology: Topology, arguments: Iterable[Any]) -> list[CubeTarget]:
    """The cubes whose memories hold a part of a tensor among a kernel's *arguments*, in the topology's order."""
    owners = {matrix.owner for tensor in _tensors(arguments) for _, matrix in tensor.every_block()}
    nodes = topology.graph.nodes
    homes = [nodes[each.node_id] for each in topology.address_map.regions if each.owner in owners]
    cubes = dict.fromkeys((node.sip, node.cube) for node in homes)
    return [CubeTarget(sip=sip, cube=cube) for sip, cube in cubes if sip is not None and cube is not None]


def _tensors(arguments: Iterable[Any]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, TensorRef):
            yield argument.tensor
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


def _place(graph: Graph, pe_id: str) -> tuple[Cube, int]:
    node = graph.pe_nodes(pe_id)[0]
    assert node.sip is not None
    assert node.cube is not None
    assert node.pe is not None
    return (node.sip, node.cube), node.pe
