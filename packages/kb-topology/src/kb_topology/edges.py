"""From link and wire templates to the links and wires of a system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from kb_messages import TopologyError
from kb_topology.endpoints import expand, pairs
from kb_topology.graph import Link, Wire, exact
from kb_topology.limits import MAX_ITEMS
from kb_topology.mesh import MESH_PATH, mesh_pairs
from kb_topology.source import YamlSource
from kb_topology.spec import LinkTemplate, MeshTemplate, TopologySpec
from kb_topology.templates import Level, LevelCopy, every, places
from kb_topology.yaml_reader import YamlPath, format_path


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
        faces = mesh_pairs(mesh, level.parts[-1], source)
        ends = _both_ways(faces) if mesh.torus is UNSET else faces
        yield from (_Edge(src, dst, make) for src, dst in edges.add(ends, MESH_PATH))
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

    def __init__(self, what: str, source: YamlSource, level: Level, most: int) -> None:
        self.what = what
        self.source = source
        self.most = most
        self._seen: dict[tuple[str, str], YamlPath] = {}
        self._parts = [part for part in level.parts if part.has_links]

    def add(self, ends: Iterable[tuple[str, str]], path: YamlPath) -> Iterator[tuple[str, str]]:
        """The *ends*, which the file has at *path*. Raises TopologyError for the first edge that is not allowed."""
        for src, dst in ends:
            if src == dst:
                raise self.source.error(path, f"a {self.what} from {src} to itself", "two different nodes")
            if (src, dst) in self._seen:
                raise self._duplicate(src, dst, path)
            if len(self._seen) == self.most:
                raise self.source.error(path, f"more than {MAX_ITEMS} {self.what}s", f"at most {MAX_ITEMS}")
            self._check_level(src, dst, path)
            self._seen[src, dst] = path
            yield src, dst

    def _duplicate(self, src: str, dst: str, path: YamlPath) -> TopologyError:
        got = f"a second {self.what} {src} -> {dst}"
        first = self.source.position(self._seen[src, dst])
        return self.source.error(path, got, f"one; the first is at {first}", "remove one")

    def _check_level(self, src: str, dst: str, path: YamlPath) -> None:
        """Refuses a link inside one part. The part makes its own links, so the link could be there twice unnoticed."""
        for part in self._parts:
            head, dot, _ = src.partition(".")
            if dot and head.startswith(part.name) and dst.startswith(f"{head}."):
                fix = f"write it in {format_path(part.yaml_path)}.links"
                raise self.source.error(path, f"a {self.what} inside {head}", f"two different {part.what}s", fix)
