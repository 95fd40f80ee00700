"""The mesh of cubes: which ports of neighbouring cubes face each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import UNSET

from kb_topology.endpoints import expand
from kb_topology.source import YamlSource
from kb_topology.spec import MeshTemplate
from kb_topology.templates import Level
from kb_topology.yaml_reader import YamlPath

MESH_PATH: YamlPath = ("sip", "cube_mesh")
_AXES = (("cols", "east", "west"), ("rows", "south", "north"))


def mesh_pairs(mesh: MeshTemplate, cube: Level, source: YamlSource) -> Iterator[tuple[str, str]]:
    """Pairs of nodes that face each other, like `cube0.ucie1` and `cube1.ucie3`, in the order of the cubes.

    Those of a torus go around the edges, too.

    Raises TopologyError, at its place in *source*, when rows times columns is not the number of cubes of a SIP, and for
    a port that is missing or names no single node of a cube.
    """
    cubes = mesh.rows * mesh.cols
    if cubes != cube.count:
        got = f"{mesh.rows} x {mesh.cols} cubes"
        needs = f"as many as cubes_per_sip, which is {cube.count}"
        raise source.error(MESH_PATH, got, needs, f"write cubes_per_sip: {cubes}, or change rows and cols")
    ports = {side: _port(mesh, axis, side, cube, source) for axis, *sides in _AXES for side in sides}
    around = mesh.torus is not UNSET
    for number in range(cubes):
        row, col = divmod(number, mesh.cols)
        if col + 1 < mesh.cols or (around and mesh.cols > 1):
            east = row * mesh.cols + (col + 1) % mesh.cols
            yield f"cube{number}.{ports['east']}", f"cube{east}.{ports['west']}"
        if row + 1 < mesh.rows or (around and mesh.rows > 1):
            south = (row + 1) % mesh.rows * mesh.cols + col
            yield f"cube{number}.{ports['south']}", f"cube{south}.{ports['north']}"


def _port(mesh: MeshTemplate, axis: str, side: str, cube: Level, source: YamlSource) -> str | None:
    text = getattr(mesh, side)
    if text is None:
        if getattr(mesh, axis) > 1:
            needs = f"the node of a cube that faces {side}, as there are {getattr(mesh, axis)} {axis}"
            raise source.error(MESH_PATH, f"no {side!r}", needs, f"add `{side}: ...`")
        return None
    fail = partial(source.error, (*MESH_PATH, side))
    ends = expand(text, cube, fail)
    if ends.many:
        raise fail(f"{text!r}, a range", "a single node of a cube")
    return ends.names[0]
