"""A topology: a loaded file, with its graph and its address map."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from kb_messages import TopologyError
from kb_topology.chip.graph import Graph
from kb_topology.chip.instantiate import instantiate
from kb_topology.chip.loader import load_spec, read_source
from kb_topology.chip.slow_pes import SLOW, pes_of, slow_pes
from kb_topology.chip.spec import TopologySpec
from kb_topology.memory.address_map import AddressMap
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath


class Topology(Struct, frozen=True, kw_only=True):
    """A checked topology.

    `slow` has the factor of each slow PE by its id, in the order of the PEs: the blocks of the PE take as many times as
    long as those of the other PEs. PEs of factor 1 are not in it.

    `digest` is the SHA-256 of the spec as JSON with defaults filled in, without its `fidelity`, and with the `slow`
    PEs by their ids. It depends on the order of nodes, because that order decides ties in routing. It does not depend
    on comments and layout. Files of equal digest give equal simulations.
    """

    name: str
    description: str
    spec: TopologySpec
    graph: Graph
    address_map: AddressMap
    slow: Mapping[str, float]
    source: YamlSource
    digest: str

    def slow_factor(self, pe_id: str) -> float:
        """The times of the blocks of the PE *pe_id* over the times that the file states: 1 for all but slow PEs."""
        return self.slow.get(pe_id, 1.0)

    def pes_of(self, key: str) -> tuple[str, ...]:
        """The ids of the PEs that *key* names, as a key of `slow` does: `pe3`, or `sip[*].cube[0].pe[0:4]`.

        Raises UnknownKeyError where *key* names no PEs of the chip.
        """
        return pes_of(key, self.spec, self.graph, partial(self.source.error, (SLOW, key)))

    @property
    def usual_pe(self) -> str:
        """The id of the first PE of least factor, which stands for all PEs in estimates. The chip has PEs."""
        return min(self.graph.pe_ids, key=self.slow_factor)

    def __repr__(self) -> str:
        from kb_topology.diagram import cell_text

        return cell_text(self)

    def _repr_html_(self) -> str:
        """The chip in a cell of a notebook: its sizes and its pictures."""
        from kb_topology.diagram import cell_html

        return cell_html(self)

    def error(self, yaml_path: YamlPath, got: str, needs: str, fix: str = "") -> TopologyError:
        """The error for *yaml_path* of the file. The caller raises it."""
        return self.source.error(yaml_path, got, needs, fix)


def load_topology(path: str | os.PathLike[str]) -> Topology:
    """The topology in the YAML file at *path*. Raises TopologyError for anything wrong with it."""
    return _topology(read_source(path))


def loads_topology(text: str, path_label: str = "<text>") -> Topology:
    """The topology in the YAML *text*. Errors call the text *path_label*. Raises TopologyError for anything wrong."""
    return _topology(YamlSource(path_label, text))


def _topology(source: YamlSource) -> Topology:
    spec = load_spec(source)
    graph = instantiate(spec, source)
    slow = slow_pes(spec, graph, source)
    digested = replace(spec, fidelity=UNSET, slow=slow or UNSET)
    return Topology(
        name=spec.name,
        description=spec.description,
        spec=spec,
        graph=graph,
        address_map=AddressMap.from_graph(graph, source, spec),
        slow=MappingProxyType(slow),
        source=source,
        digest=hashlib.sha256(msgspec.json.encode(digested)).hexdigest(),
    )
