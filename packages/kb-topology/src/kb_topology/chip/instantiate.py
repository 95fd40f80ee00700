"""The graph of a checked spec: every node, link and wire, built from templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from string import digits
from types import MappingProxyType

from kb_messages import MemorySpace
from kb_topology.chip.edges import build_links, build_wires
from kb_topology.chip.endpoints import Fail
from kb_topology.chip.graph import Graph, Node, NodeMemory
from kb_topology.chip.limits import MAX_DIES, MAX_ITEMS, MAX_MEMORY_NBYTES, MAX_UNITS
from kb_topology.chip.spec import MemoryTemplate, NodeTemplate, TopologySpec
from kb_topology.chip.templates import Level, LevelCopy, every, levels, places
from kb_topology.text.checked import WrongValueError
from kb_topology.text.sizes import format_nbytes, parse_nbytes
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def instantiate(spec: TopologySpec, source: YamlSource) -> Graph:
    """The graph that *spec* describes.

    Raises TopologyError, at its place in *source*, for an impossible name, size, endpoint or count, for a link or wire
    that occurs twice or joins a node to itself, and for more than MAX_ITEMS nodes, links or wires.
    """
    system = levels(spec)
    _check(spec, system, source)
    parts = {level.name: _parts(level, source) for level, _ in every(system)}
    nodes: dict[str, Node] = {}
    for level, place in places(system, LevelCopy()):
        for part in parts[level.name]:
            nodes.update(part.nodes(place))
    return Graph(
        nodes=MappingProxyType(nodes),
        links=tuple(build_links(spec, system, source)),
        wires=tuple(build_wires(spec, system, source)),
    )


def _check(spec: TopologySpec, system: Level, source: YamlSource) -> None:
    cube = spec.cube
    if (cube.pe_layout is None) != (cube.pe_template is None):
        missing = "pe_layout" if cube.pe_layout is None else "pe_template"
        raise source.error(("cube",), f"no {missing!r}", "pe_layout and pe_template, or neither", f"add {missing}")
    for key, dies in (("sips", spec.sips), ("cubes_per_sip", spec.cubes_per_sip)):
        if dies > MAX_DIES:
            raise source.error((key,), str(dies), f"at most {MAX_DIES}", "an address has 8 bits for their number")
    for level, copies in reversed(list(every(system))):
        _check_level(level, source)
        if level.node_count > MAX_ITEMS:
            raise source.error(level.yaml_path, f"{level.node_count} nodes", f"at most {MAX_ITEMS}", "lower a count")
        if copies > MAX_ITEMS:
            raise source.error(level.yaml_path, f"{copies} {level.noun}s", f"at most {MAX_ITEMS}", "lower a count")


def _check_level(level: Level, source: YamlSource) -> None:
    for name, template in level.nodes.items():
        fail = partial(source.error, (*level.yaml_path, "nodes", name))
        _check_name(name, level, fail)
        units = max(level.count if level.name == "pe" else 1, template.count or 1)
        if template.memory and level.name not in ("cube", "pe"):
            fix = "put it in cube.nodes: an address names a SIP and a cube"
            raise fail("a memory outside the cubes", "a memory in a cube", fix)
        if template.memory and units > MAX_UNITS:
            raise fail(f"{units} memories", f"at most {MAX_UNITS}", "an address has 10 bits for their number")


def _check_name(name: str, level: Level, fail: Fail) -> None:
    taken = {part.name: part.noun for part in level.parts}
    if level.name == "cube":
        taken["pe"] = "PE"
    if not _NAME.fullmatch(name) or name.rstrip(digits) in taken:
        but = "".join(f", and not {part}, which stands for the {noun}s" for part, noun in taken.items())
        raise fail(f"the name {name!r}", f"lower-case letters, digits and _{but}")


def _parts(level: Level, source: YamlSource) -> list[_Part]:
    parts = [_Part(name, template, (*level.yaml_path, "nodes"), source) for name, template in level.nodes.items()]
    owners: dict[str, _Part] = {}
    for part in parts:
        for name in part.names:
            if owners.setdefault(name, part) is not part:
                got = f"a second node {_first_id(level, name)}"
                raise source.error(part.yaml_path, got, "one node per id", "rename one of the two")
    return parts


def _first_id(level: Level, name: str) -> str:
    prefix = {"system": "", "sip": "sip0.", "io": "sip0.io0.", "cube": "sip0.cube0.", "pe": "sip0.cube0.pe0."}
    return f"{prefix[level.name]}{name}"


class _Part:
    """A node template, and the values that all its copies share."""

    def __init__(self, name: str, template: NodeTemplate, nodes_path: YamlPath, source: YamlSource) -> None:
        self.name = name
        self.template = template
        self.yaml_path = (*nodes_path, name)
        self.attrs = MappingProxyType(template.attrs)
        fail = partial(source.error, (*self.yaml_path, "memory", "size"))
        self.memory = _memory(template.memory, fail) if template.memory else None

    @property
    def names(self) -> list[str]:
        """The last parts of the ids of its copies in one copy of its level."""
        return [self.name] if self.template.count is None else [f"{self.name}{i}" for i in range(self.template.count)]

    def nodes(self, place: LevelCopy) -> Iterator[tuple[str, Node]]:
        """The nodes in *place*, one copy of the level, by id."""
        for number, name in enumerate(self.names):
            node_id = place.prefix + name
            yield (
                node_id,
                Node(
                    id=node_id,
                    kind=self.template.kind,
                    impl=self.template.impl,
                    attrs=self.attrs,
                    memory=self.memory,
                    sip=place.sip,
                    io=place.io,
                    cube=place.cube,
                    pe=place.pe,
                    index=None if self.template.count is None else number,
                    yaml_path=self.yaml_path,
                ),
            )


def _memory(template: MemoryTemplate, fail: Fail) -> NodeMemory:
    nbytes = parse_nbytes(template.size)
    if nbytes is None:
        error = fail(repr(template.size), "a size such as 512 KiB, 2 MiB or 2 GiB, or an int of bytes")
        raise WrongValueError(*error.args)
    if not 0 < nbytes <= MAX_MEMORY_NBYTES:
        allowed = f"1 B to {format_nbytes(MAX_MEMORY_NBYTES)}"
        raise WrongValueError(*fail(str(template.size), allowed, "use more nodes for more memory").args)
    return NodeMemory(space=MemorySpace(template.space), nbytes=nbytes)
