"""The levels of a topology: system, SIP, IO chiplet, cube and PE, each with its templates and its copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, UnsetType

from kb_topology.chip.spec import (
    IoTemplate,
    LinkTemplate,
    NodeTemplate,
    PeLayout,
    PeTemplate,
    SipTemplate,
    SystemTemplate,
    TopologySpec,
)
from kb_topology.text.yaml_reader import YamlPath

_PE_TEMPLATE: Final = ("cube", "pe_template")
NODE_PLACES: Final[tuple[YamlPath, ...]] = (
    ("system", "nodes"),
    ("io", "nodes"),
    ("cube", "nodes"),
    (*_PE_TEMPLATE, "nodes"),
)
"""The places in a file that have mappings of nodes."""


class Level(Struct, frozen=True, kw_only=True):
    """The template of one level. Each copy of the level around it has `count` copies of this level, numbered from 0.

    `noun` is the name of the hardware in sentences. `yaml_path` is the place of its nodes and links in the file. A link
    between two nodes of one copy belongs to this level, so no level around it may make such a link. Wires are no links,
    and a level without links has `has_links` False.
    """

    name: str
    noun: str
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
        """The endpoints that are allowed at this level, in the syntax of the file."""
        yield from self.nodes
        for part in self.parts:
            yield from (f"{part.name}[...].{name}" for name in part.endpoints)

    @property
    def node_count(self) -> int:
        """The number of nodes of one copy, with all levels inside it."""
        own = sum(template.count or 1 for template in self.nodes.values())
        return own + sum(part.count * part.node_count for part in self.parts)


class LevelCopy(Struct, frozen=True, kw_only=True):
    """One copy of a level: the numbers of the parts around it, and the prefix of the ids of its nodes."""

    prefix: str = ""
    sip: int | None = None
    io: int | None = None
    cube: int | None = None
    pe: int | None = None

    def inside(self, name: str, number: int) -> LevelCopy:
        """Copy *number* of the level *name* directly inside this copy."""
        numbers = {"sip": self.sip, "io": self.io, "cube": self.cube, "pe": self.pe, name: number}
        return LevelCopy(prefix=f"{self.prefix}{name}{number}.", **numbers)


def levels(spec: TopologySpec) -> Level:
    """The levels of *spec*, from the system in."""
    system = SystemTemplate() if isinstance(spec.system, UnsetType) else spec.system
    return Level(
        name="system",
        noun="system",
        yaml_path=("system",),
        nodes=system.nodes,
        links=system.links,
        parts=(_sip(spec),),
    )


def _sip(spec: TopologySpec) -> Level:
    sip = SipTemplate() if isinstance(spec.sip, UnsetType) else spec.sip
    parts = (_cube(spec),) if isinstance(spec.io, UnsetType) else (_io(spec.io), _cube(spec))
    return Level(name="sip", noun="SIP", yaml_path=("sip",), count=spec.sips, links=sip.links, parts=parts)


def _io(io: IoTemplate) -> Level:
    return Level(name="io", noun="IO chiplet", yaml_path=("io",), count=io.count, nodes=io.nodes, links=io.links)


def _cube(spec: TopologySpec) -> Level:
    cube = spec.cube
    return Level(
        name="cube",
        noun="cube",
        yaml_path=("cube",),
        count=spec.cubes_per_sip,
        nodes=cube.nodes,
        links=cube.links,
        parts=(_pe(cube.pe_template, cube.pe_layout),) if cube.pe_template and cube.pe_layout else (),
    )


def _pe(template: PeTemplate, layout: PeLayout) -> Level:
    return Level(
        name="pe", noun="PE", yaml_path=_PE_TEMPLATE, count=layout.count, nodes=template.nodes, has_links=False
    )


def every(level: Level, copies: int = 1) -> Iterator[tuple[Level, int]]:
    """*level* and all levels inside it, each with the number of its copies in *copies* copies of *level*."""
    yield level, copies
    for part in level.parts:
        yield from every(part, copies * part.count)


def places(level: Level, place: LevelCopy) -> Iterator[tuple[Level, LevelCopy]]:
    """*level* at *place* and every copy of the levels inside it, in the order in which nodes are built."""
    yield level, place
    for part in level.parts:
        for number in range(part.count):
            yield from places(part, place.inside(part.name, number))
