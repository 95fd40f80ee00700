"""Kinds of links: the links of a chip that join nodes of the same two names, which one lever makes faster together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import UnsetType

from kb_cli.compare.blocks import block_name
from kb_topology import Link, Topology, YamlPath

_MESH = ("mesh",)
_LEVELS = ("system", "sip", "io", "cube")


class LinkKind(NamedTuple):
    """Links of one level of a chip (`system`, `sip`, `io` or `cube`) between nodes with the names `ends`, one or two.

    The links of a mesh of cubes have the ends `mesh`.
    """

    level: str
    ends: tuple[str, ...]

    @property
    def name(self) -> str:
        """The kind in sentences: `the links between XBAR and HBM`."""
        if self.ends == _MESH:
            return "the links of the mesh of cubes"
        names = [block_name(end) for end in self.ends]
        place = {"system": "", "sip": " of the SIP", "io": " of the IO chiplet"}.get(self.level, "")
        return f"the links between {names[0]} and {names[-1]}{place}"


def templates_of_links(topology: Topology) -> Iterator[tuple[YamlPath, Any, LinkKind]]:
    """Yields (place, template, kind) of each entry of the file of *topology* that makes links."""
    for level in _LEVELS:
        part = getattr(topology.spec, level)
        if isinstance(part, UnsetType):
            continue
        for number, link in enumerate(part.links):
            yield (level, "links", number), link, LinkKind(level, _ends(_name(link.src), _name(link.dst)))
        if level == "sip" and part.cube_mesh is not None:
            yield ("sip", "cube_mesh"), part.cube_mesh, LinkKind(level, _MESH)


def kind_of_link(topology: Topology, link: Link) -> LinkKind:
    """Returns the kind of *link*, a link of *topology*."""
    src, dst = topology.graph.nodes[link.src], topology.graph.nodes[link.dst]
    ends = _ends(str(src.yaml_path[-1]), str(dst.yaml_path[-1]))
    if src.sip is None or src.sip != dst.sip:
        return LinkKind("system", ends)
    if src.cube is not None and src.cube == dst.cube:
        return LinkKind("cube", ends)
    if src.io is not None and src.io == dst.io:
        return LinkKind("io", ends)
    is_mesh = src.cube is not None and dst.cube is not None and set(ends) <= _faces(topology)
    return LinkKind("sip", _MESH if is_mesh else ends)


def _faces(topology: Topology) -> set[str]:
    """Returns the names of the nodes by which the cubes of a mesh are joined."""
    sip = topology.spec.sip
    if isinstance(sip, UnsetType) or sip.cube_mesh is None:
        return set()
    mesh = sip.cube_mesh
    return {_name(each) for each in (mesh.north, mesh.east, mesh.south, mesh.west) if each is not None}


def _name(end: str) -> str:
    """Returns the name of the nodes of an endpoint: `pe_dma` of `pe[0:4].pe_dma`."""
    return re.sub(r"\[[^]]*\]", "", end).rpartition(".")[2].strip()


def _ends(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted({one, other}))
