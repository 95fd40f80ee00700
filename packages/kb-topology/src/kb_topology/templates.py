"""The levels of a topology: system, SIP, IO chiplet, cube and PE, each with its templates and its copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, UnsetType

from kb_topology.spec import (
    IoTemplate,
    LinkTemplate,
    NodeTemplate,
    PeLayout,
    PeTemplate,
    SipTemplate,
    SystemTemplate,
    TopologySpec,
)
from kb_topology.yaml_reader import YamlPath

_PE_TEMPLATE: Final = ("cube", "pe_template")
NODE_PLACES: Final[tuple[YamlPath, ...]] = (
    ("system", "nodes"),
    ("io", "nodes"),
    ("cube", "nodes"),
    (*_PE_TEMPLATE, "nodes"),
)
"""Where a file has mappings of nodes."""


class Level(Struct, frozen=True, kw_only=True):
    """One template: `count` copies of it, numbered from 0, are in each copy of the level around it.

    `what` is the hardware's name in sentences. `yaml_path` is where its nodes and links are written. Links between
    two nodes of one copy belong here, so no level around it may make them; wires are not links.
    """

    name: str
    what: str
    yaml_path: YamlPath
    count: int = 1
    nodes: Mapping[str, NodeTemplate] = {}
    links: Sequence[LinkTemplate] = ()
    parts: tuple[Level, ...] = ()
    has_links: bool = True

    def part(self, name: str) -> Level | None:
        """The level *name* directly inside this one."""
        return next((part for part in self.parts if part.name == name), None)

    @property
    def endpoints(self) -> Iterator[str]:
        """What an endpoint written at this level may name, as it would write it."""
        yield from self.nodes
        for part in self.parts:
            yield from (f"{part.name}[...].{name}" for name in part.endpoints)

    @property
    def node_count(self) -> int:
        """The nodes of one copy, those of all levels inside it included."""
        own = sum(template.count or 1 for template in self.nodes.values())
        return own + sum(part.count * part.node_count for part in self.parts)


class Place(Struct, frozen=True, kw_only=True):
    """One copy of a level: the numbers on the way to it, and what the ids of its nodes begin with."""

    prefix: str = ""
    sip: int | None = None
    io: int | None = None
    cube: int | None = None
    pe: int | None = None

    def inside(self, name: str, number: int) -> Place:
        """Copy *number* of the level *name* directly inside this one."""
        numbers = {"sip": self.sip, "io": self.io, "cube": self.cube, "pe": self.pe, name: number}
        return Place(prefix=f"{self.prefix}{name}{number}.", **numbers)


def levels(spec: TopologySpec) -> Level:
    """The levels of *spec*, from the system in."""
    system = SystemTemplate() if isinstance(spec.system, UnsetType) else spec.system
    return Level(
        name="system",
        what="system",
        yaml_path=("system",),
        nodes=system.nodes,
        links=system.links,
        parts=(_sip(spec),),
    )


def _sip(spec: TopologySpec) -> Level:
    sip = SipTemplate() if isinstance(spec.sip, UnsetType) else spec.sip
    parts = (_cube(spec),) if isinstance(spec.io, UnsetType) else (_io(spec.io), _cube(spec))
    return Level(name="sip", what="SIP", yaml_path=("sip",), count=spec.sips, links=sip.links, parts=parts)


def _io(io: IoTemplate) -> Level:
    return Level(name="io", what="IO chiplet", yaml_path=("io",), count=io.count, nodes=io.nodes, links=io.links)


def _cube(spec: TopologySpec) -> Level:
    cube = spec.cube
    return Level(
        name="cube",
        what="cube",
        yaml_path=("cube",),
        count=spec.cubes_per_sip,
        nodes=cube.nodes,
        links=cube.links,
        parts=(_pe(cube.pe_template, cube.pe_layout),) if cube.pe_template and cube.pe_layout else (),
    )


def _pe(template: PeTemplate, layout: PeLayout) -> Level:
    return Level(
        name="pe", what="PE", yaml_path=_PE_TEMPLATE, count=layout.count, nodes=template.nodes, has_links=False
    )


def every(level: Level, copies: int = 1) -> Iterator[tuple[Level, int]]:
    """*level* and all levels inside it, each with how often it is there in *copies* copies of *level*."""
    yield level, copies
    for part in level.parts:
        yield from every(part, copies * part.count)


def places(level: Level, place: Place) -> Iterator[tuple[Level, Place]]:
    """Every copy of *level*, which is at *place*, and of the levels inside it, in the order nodes are built."""
    yield level, place
    for part in level.parts:
        for number in range(part.count):
            yield from places(part, place.inside(part.name, number))
