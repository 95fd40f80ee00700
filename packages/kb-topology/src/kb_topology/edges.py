"""Link and wire templates -> the links and wires of a cube."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from kb_messages.errors import TopologyError
from kb_topology.endpoints import Scope, expand, pairs
from kb_topology.graph import Link, Wire, exact
from kb_topology.limits import MAX_ITEMS
from kb_topology.source import Source
from kb_topology.spec import CubeTemplate, LinkTemplate, TopologySpec
from kb_topology.yaml_reader import YamlPath


def build_links(spec: TopologySpec, cube_id: str, source: Source) -> Iterator[Link]:
    """The links of one cube. Raises TopologyError, at its place in *source*, for one that cannot be."""
    cube = spec.cube
    scope = Scope(
        nodes=cube.nodes,
        pe_nodes=cube.pe_template.nodes if cube.pe_template else {},
        pe_count=cube.pe_layout.count if cube.pe_layout else 0,
    )
    edges = _Edges("link", source)
    for index, template in enumerate(cube.links):
        make = _link_maker(template, exact(spec.wire_ps_per_mm))
        path: YamlPath = ("cube", "links", index)
        for a, b in _link_ends(template, path, scope, source):
            for src, dst in ((a, b), (b, a)) if template.both_ways else ((a, b),):
                edges.add(src, dst, path)
                yield make(src=f"{cube_id}.{src}", dst=f"{cube_id}.{dst}")


def _link_ends(template: LinkTemplate, path: YamlPath, scope: Scope, source: Source) -> Iterator[tuple[str, str]]:
    src = expand(template.src, scope, partial(source.error, (*path, "from")))
    dst = expand(template.dst, scope, partial(source.error, (*path, "to")))
    return pairs(src, dst, partial(source.error, path))


def _link_maker(template: LinkTemplate, wire_ps_per_mm: Fraction) -> partial[Link]:
    length_mm = exact(template.length_mm)
    latency_ps = math.ceil(length_mm * wire_ps_per_mm)
    return partial(Link, bw_gbs=exact(template.bw_gbs), length_mm=length_mm, latency_ps=latency_ps)


def build_wires(cube: CubeTemplate, cube_id: str, source: Source) -> Iterator[Wire]:
    """The wires of all PEs of one cube. Raises TopologyError, at its place in *source*, for one that cannot be."""
    if cube.pe_template is None or cube.pe_layout is None:
        return
    scope = Scope(nodes=cube.pe_template.nodes)
    edges = _Edges("wire", source, cube.pe_layout.count)
    for index, text in enumerate(cube.pe_template.wires):
        path: YamlPath = ("cube", "pe_template", "wires", index)
        for src, dst in _wire_ends(text, path, scope, source):
            edges.add(src, dst, path)
    for pe in range(cube.pe_layout.count):
        prefix = f"{cube_id}.pe{pe}"
        yield from (Wire(src=f"{prefix}.{src}", dst=f"{prefix}.{dst}") for src, dst in edges.seen)


def _wire_ends(text: str, path: YamlPath, scope: Scope, source: Source) -> Iterator[tuple[str, str]]:
    fail = partial(source.error, path)
    names = [name.strip() for name in text.split("->")]
    if len(names) != 2:
        raise fail(repr(text), "two nodes of the PE as in `a -> b`")
    return pairs(expand(names[0], scope, fail), expand(names[1], scope, fail), fail)


class _Edges:
    """The edges so far: each is there once, joins two different nodes, and there are not too many."""

    def __init__(self, what: str, source: Source, copies: int = 1) -> None:
        self.what = what
        self.source = source
        self.most = MAX_ITEMS // copies
        self.seen: dict[tuple[str, str], YamlPath] = {}

    def add(self, src: str, dst: str, path: YamlPath) -> None:
        if src == dst:
            raise self.source.error(path, f"a {self.what} from {src} to itself", "two different nodes")
        if (src, dst) in self.seen:
            raise self._duplicate(src, dst, path)
        if len(self.seen) == self.most:
            raise self.source.error(path, f"more than {MAX_ITEMS} {self.what}s", f"at most {MAX_ITEMS}")
        self.seen[src, dst] = path

    def _duplicate(self, src: str, dst: str, path: YamlPath) -> TopologyError:
        got = f"a second {self.what} {src} -> {dst}"
        first = self.source.position(self.seen[src, dst])
        return self.source.error(path, got, f"one; the first is at {first}", "remove one")
