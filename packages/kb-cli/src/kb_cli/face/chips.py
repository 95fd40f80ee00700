"""The chip of a run from Python: a bundled name, a file, or another chip's file with other values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kb_cli.benchmark import bundled
from kb_engine.program import authors_traceback
from kb_messages import TopologyError
from kb_topology import Topology, load_topology, loads_topology, parse_path, with_values

Chip = str | os.PathLike[str] | Topology


def chip(named: Chip, values: Mapping[str, object] | None = None) -> Topology:
    """Returns the chip *named*: a bundled name, the path of a YAML file, or a Topology.

    With *values*, it is that chip with other values at their places in its file, such as `{"$.cube.nodes.hbm.bw_gbs":
    204.8}`, as `kb whatif --set` takes them. Raises TopologyError for an unknown name, a file that is no chip,
    arguments of other types, and a place that no chip has. The run refuses a value that a block does not take. Their
    tracebacks have the frames of the author's files alone.
    """
    try:
        return _chip(named, values)
    except TopologyError as error:
        raise error.with_traceback(authors_traceback(error)) from None


def _chip(named: Chip, values: Mapping[str, object] | None) -> Topology:
    if not isinstance(named, str | os.PathLike | Topology):
        raise TopologyError("chip", repr(named), "a bundled name, the path of a YAML file, or a Topology")
    if values is not None and not isinstance(values, Mapping):
        needs = 'a dict of places and values, such as {"$.cube.nodes.hbm.bw_gbs": 204.8}'
        raise TopologyError("values of a chip", repr(values), needs)
    if isinstance(named, Topology):
        topology = named
    else:
        topology = load_topology(bundled.find("topologies", named) if isinstance(named, str) else Path(named))
    if not values:
        return topology
    places: list[object] = [*values]
    for place in places:
        if not isinstance(place, str):
            raise TopologyError("values of a chip", f"the place {place!r}", "a text such as $.cube.nodes.hbm.bw_gbs")
    source = with_values(topology.source, {parse_path(path): str(value) for path, value in values.items()})
    return loads_topology(source.text, source.path)
