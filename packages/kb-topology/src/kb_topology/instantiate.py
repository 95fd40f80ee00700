"""Templates -> graph: every node, link and wire of a checked spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

from kb_messages.address import MemorySpace
from kb_topology.edges import build_links, build_wires
from kb_topology.endpoints import Fail
from kb_topology.graph import Graph, Memory, Node
from kb_topology.limits import MAX_ITEMS, MAX_MEMORY_NBYTES, MAX_UNITS
from kb_topology.sizes import format_nbytes, parse_nbytes
from kb_topology.source import Source
from kb_topology.spec import CubeTemplate, MemoryTemplate, NodeTemplate, TopologySpec
from kb_topology.yaml_reader import YamlPath

_NODES: YamlPath = ("cube", "nodes")
_PE_NODES: YamlPath = ("cube", "pe_template", "nodes")
_NAME = re.compile(r"(?!pe[0-9]*$)[a-z][a-z0-9_]*")


def instantiate(spec: TopologySpec, source: Source) -> Graph:
    """The graph that *spec* describes.

    Raises TopologyError, at its place in *source*, for a name, size, endpoint or count that cannot be, for a link or
    wire that is there twice or joins a node to itself, and for more than MAX_ITEMS nodes or links.
    """
    _check(spec.cube, source)
    cube_id = "sip0.cube0"
    nodes: dict[str, Node] = {}
    for node in _nodes(spec.cube, cube_id, source):
        if node.id in nodes:
            raise source.error(node.yaml_path, f"a second node {node.id}", "one node per id", "rename one of the two")
        nodes[node.id] = node
    return Graph(
        nodes=MappingProxyType(nodes),
        links=tuple(build_links(spec, cube_id, source)),
        wires=tuple(build_wires(spec.cube, cube_id, source)),
    )


def _check(cube: CubeTemplate, source: Source) -> None:
    if (cube.pe_layout is None) != (cube.pe_template is None):
        missing = "pe_layout" if cube.pe_layout is None else "pe_template"
        raise source.error(("cube",), f"no {missing!r}", "pe_layout and pe_template, or neither", f"add {missing}")
    pe_nodes, pe_count = _pe_nodes(cube), _pe_count(cube)
    for path, templates, copies in ((_NODES, cube.nodes, 1), (_PE_NODES, pe_nodes, pe_count)):
        for name, template in templates.items():
            _check_template(name, template, copies, partial(source.error, (*path, name)))
    total = sum(t.count or 1 for t in cube.nodes.values())
    total += pe_count * sum(t.count or 1 for t in pe_nodes.values())
    if total > MAX_ITEMS:
        raise source.error(("cube",), f"{total} nodes", f"at most {MAX_ITEMS}", "lower a count")


def _check_template(name: str, template: NodeTemplate, copies: int, fail: Fail) -> None:
    if not _NAME.fullmatch(name):
        raise fail(f"the name {name!r}", "lower-case letters, digits and _, and not pe, which stands for the PEs")
    units = max(copies, template.count or 1)
    if template.memory and units > MAX_UNITS:
        raise fail(f"{units} memories", f"at most {MAX_UNITS}", "an address has 10 bits for their number")


def _pe_nodes(cube: CubeTemplate) -> Mapping[str, NodeTemplate]:
    return cube.pe_template.nodes if cube.pe_template else {}


def _pe_count(cube: CubeTemplate) -> int:
    return cube.pe_layout.count if cube.pe_layout else 0


def _nodes(cube: CubeTemplate, cube_id: str, source: Source) -> Iterator[Node]:
    parts = [_Part(name, template, _NODES, source) for name, template in cube.nodes.items()]
    pe_parts = [_Part(name, template, _PE_NODES, source) for name, template in _pe_nodes(cube).items()]
    for part in parts:
        yield from part.nodes(cube_id, None)
    for pe in range(_pe_count(cube)):
        for part in pe_parts:
            yield from part.nodes(f"{cube_id}.pe{pe}", pe)


class _Part:
    """A node template with all that its copies share."""

    def __init__(self, name: str, template: NodeTemplate, nodes_path: YamlPath, source: Source) -> None:
        self.name = name
        self.template = template
        self.yaml_path = (*nodes_path, name)
        self.attrs = MappingProxyType(template.attrs)
        fail = partial(source.error, (*self.yaml_path, "memory", "size"))
        self.memory = _memory(template.memory, fail) if template.memory else None

    def nodes(self, parent: str, pe: int | None) -> Iterator[Node]:
        for index in range(self.template.count) if self.template.count else (None,):
            yield Node(
                id=f"{parent}.{self.name}{'' if index is None else index}",
                kind=self.template.kind,
                impl=self.template.impl,
                attrs=self.attrs,
                memory=self.memory,
                sip=0,
                cube=0,
                pe=pe,
                index=index,
                yaml_path=self.yaml_path,
            )


def _memory(template: MemoryTemplate, fail: Fail) -> Memory:
    nbytes = parse_nbytes(template.size)
    if nbytes is None:
        raise fail(repr(template.size), "a size such as 512 KiB, 2 MiB or 2 GiB, or an int of bytes")
    if not 0 < nbytes <= MAX_MEMORY_NBYTES:
        raise fail(str(template.size), f"1 B to {format_nbytes(MAX_MEMORY_NBYTES)}", "use more nodes for more memory")
    return Memory(space=MemorySpace(template.space), nbytes=nbytes)
