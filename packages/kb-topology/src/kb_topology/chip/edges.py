"""Links and wires of a system, built from link and wire templates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from kb_messages import TopologyError
from kb_topology.chip.endpoints import expand, pairs
from kb_topology.chip.graph import Link, Wire, exact
from kb_topology.chip.limits import MAX_ITEMS
from kb_topology.chip.spec import LinkTemplate, MeshTemplate, TopologySpec
from kb_topology.chip.templates import Level, LevelCopy, every, places
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath, format_path

_MESH_PATH: YamlPath = ("sip", "cube_mesh")
_AXES = (("cols", "east", "west"), ("rows", "south", "north"))


class _Edge(NamedTuple):
    """A link whose ends are relative to one copy of its level. *make* builds the Link with bandwidth and latency."""

    src: str
    dst: str
    make: partial[Link]


def build_links(spec: TopologySpec, system: Level, source: YamlSource) -> Iterator[Link]:
    """The links of all copies of all levels. Raises TopologyError, at its place in *source*, for an impossible link.

    Each template is expanded once, relative to its level, because the copies differ only in the prefix of their ids.
    """
    room = MAX_ITEMS
    expanded: dict[str, list[_Edge]] = {}
    for level, copies in every(system):
        edges = list(_level_edges(spec, level, _Edges("link", source, level, room // copies)))
        expanded[level.name] = edges
        room -= copies * len(edges)
    for level, place in places(system, LevelCopy()):
        prefix = place.prefix
        for edge in expanded[level.name]:
            yield edge.make(src=prefix + edge.src, dst=prefix + edge.dst)


def _level_edges(spec: TopologySpec, level: Level, edges: _Edges) -> Iterator[_Edge]:
    source, wire_ps_per_mm = edges.source, exact(spec.wire_ps_per_mm)
    mesh = None if isinstance(spec.sip, UnsetType) or level.name != "sip" else spec.sip.cube_mesh
    if mesh:
        make = _link_maker(mesh, wire_ps_per_mm)
        faces = _mesh_pairs(mesh, level.parts[-1], source)
        ends = _both_ways(faces) if mesh.torus is UNSET else faces
        yield from (_Edge(src, dst, make) for src, dst in edges.add(ends, _MESH_PATH))
    for index, template in enumerate(level.links):
        path = (*level.yaml_path, "links", index)
        make = _link_maker(template, wire_ps_per_mm)
        ends = _link_ends(template, path, level, source)
        ends = _both_ways(ends) if template.both_ways else ends
        yield from (_Edge(src, dst, make) for src, dst in edges.add(ends, path))


def _both_ways(ends: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for a, b in ends:
        yield a, b
        yield b, a


def _link_ends(template: LinkTemplate, path: YamlPath, level: Level, source: YamlSource) -> Iterator[tuple[str, str]]:
    src = expand(template.src, level, partial(source.error, (*path, "from")))
    dst = expand(template.dst, level, partial(source.error, (*path, "to")))
    return pairs(src, dst, partial(source.error, path))


def _link_maker(template: LinkTemplate | MeshTemplate, wire_ps_per_mm: Fraction) -> partial[Link]:
    length_mm = exact(template.length_mm)
    latency_ps = math.ceil(length_mm * wire_ps_per_mm)
    return partial(Link, bw_gbs=exact(template.bw_gbs), length_mm=length_mm, latency_ps=latency_ps)


def build_wires(spec: TopologySpec, system: Level, source: YamlSource) -> Iterator[Wire]:
    """The wires of all PEs. Raises TopologyError, at its place in *source*, for an impossible wire."""
    found = next(((level, copies) for level, copies in every(system) if level.name == "pe"), None)
    if found is None or spec.cube.pe_template is None:
        return
    pe, copies = found
    edges = _Edges("wire", source, pe, MAX_ITEMS // copies)
    ends: list[tuple[str, str]] = []
    for index, text in enumerate(spec.cube.pe_template.wires):
        path = (*pe.yaml_path, "wires", index)
        ends += edges.add(_wire_ends(text, path, pe, source), path)
    for level, place in places(system, LevelCopy()):
        if level is pe:
            prefix = place.prefix
            yield from (Wire(src=prefix + src, dst=prefix + dst) for src, dst in ends)


def _wire_ends(text: str, path: YamlPath, pe: Level, source: YamlSource) -> Iterator[tuple[str, str]]:
    fail = partial(source.error, path)
    names = [name.strip() for name in text.split("->")]
    if len(names) != 2:
        raise fail(repr(text), "two nodes of the PE as in `a -> b`")
    return pairs(expand(names[0], pe, fail), expand(names[1], pe, fail), fail)


class _Edges:
    """The edges of one level so far. Each edge occurs once and joins two different nodes; there are at most *most*."""

    def __init__(self, noun: str, source: YamlSource, level: Level, most: int) -> None:
        self.noun = noun
        self.source = source
        self.most = most
        self._seen: dict[tuple[str, str], YamlPath] = {}
        self._parts = [part for part in level.parts if part.has_links]

    def add(self, ends: Iterable[tuple[str, str]], path: YamlPath) -> Iterator[tuple[str, str]]:
        """*ends*, checked. The file has them at *path*. Raises TopologyError for the first edge that is not allowed."""
        for src, dst in ends:
            if src == dst:
                raise self.source.error(path, f"a {self.noun} from {src} to itself", "two different nodes")
            if (src, dst) in self._seen:
                raise self._duplicate(src, dst, path)
            if len(self._seen) == self.most:
                raise self.source.error(path, f"more than {MAX_ITEMS} {self.noun}s", f"at most {MAX_ITEMS}")
            self._check_level(src, dst, path)
            self._seen[src, dst] = path
            yield src, dst

    def _duplicate(self, src: str, dst: str, path: YamlPath) -> TopologyError:
        got = f"a second {self.noun} {src} -> {dst}"
        first = self.source.position(self._seen[src, dst])
        return self.source.error(path, got, f"one; the first is at {first}", "remove one")

    def _check_level(self, src: str, dst: str, path: YamlPath) -> None:
        """Refuses a link inside one part. The part makes its own links, so the link could exist twice unnoticed."""
        for part in self._parts:
            head, dot, _ = src.partition(".")
            if dot and head.startswith(part.name) and dst.startswith(f"{head}."):
                fix = f"write it in {format_path(part.yaml_path)}.links"
                raise self.source.error(path, f"a {self.noun} inside {head}", f"two different {part.noun}s", fix)


def _mesh_pairs(mesh: MeshTemplate, cube: Level, source: YamlSource) -> Iterator[tuple[str, str]]:
    """Pairs of nodes that face each other, like `cube0.ucie1` and `cube1.ucie3`, in the order of the cubes.

    The pairs of a torus also join the last cube of a row or column to the first.

    Raises TopologyError, at its place in *source*, when rows times columns is not the number of cubes of a SIP, and for
    a port that is missing or names no single node of a cube.
    """
    cubes = mesh.rows * mesh.cols
    if cubes != cube.count:
        got = f"{mesh.rows} x {mesh.cols} cubes"
        needs = f"as many as cubes_per_sip, which is {cube.count}"
        raise source.error(_MESH_PATH, got, needs, f"write cubes_per_sip: {cubes}, or change rows and cols")
    ports = {side: _mesh_port(mesh, axis, side, cube, source) for axis, *sides in _AXES for side in sides}
    around = mesh.torus is not UNSET
    for number in range(cubes):
        row, col = divmod(number, mesh.cols)
        if col + 1 < mesh.cols or (around and mesh.cols > 1):
            east = row * mesh.cols + (col + 1) % mesh.cols
            yield f"cube{number}.{ports['east']}", f"cube{east}.{ports['west']}"
        if row + 1 < mesh.rows or (around and mesh.rows > 1):
            south = (row + 1) % mesh.rows * mesh.cols + col
            yield f"cube{number}.{ports['south']}", f"cube{south}.{ports['north']}"


def _mesh_port(mesh: MeshTemplate, axis: str, side: str, cube: Level, source: YamlSource) -> str | None:
    text = getattr(mesh, side)
    if text is None:
        if getattr(mesh, axis) > 1:
            needs = f"the node of a cube that faces {side}, as there are {getattr(mesh, axis)} {axis}"
            raise source.error(_MESH_PATH, f"no {side!r}", needs, f"add `{side}: ...`")
        return None
    fail = partial(source.error, (*_MESH_PATH, side))
    ends = expand(text, cube, fail)
    if ends.many:
        raise fail(f"{text!r}, a range", "a single node of a cube")
    return ends.names[0]
