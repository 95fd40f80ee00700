"""Loading of a YAML file into a checked TopologySpec."""

from __future__ import annotations

import os
from typing import Any

from kb_messages import TopologyError, read_text
from kb_topology.chip.limits import MAX_FILE_NBYTES, MAX_NAME_CHARACTERS
from kb_topology.chip.spec import NODE_KEYS, TopologySpec
from kb_topology.chip.templates import NODE_PLACES
from kb_topology.chip.validation import check_validations
from kb_topology.text.checked import convert_checked
from kb_topology.text.sentences import short
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import read_yaml


def read_source(path: str | os.PathLike[str]) -> YamlSource:
    """The text of the file at *path*. Raises TopologyError when it is no regular file, too large or not UTF-8."""
    label = os.fspath(path)
    return YamlSource(label, read_text(label, "a YAML file", TopologyError, MAX_FILE_NBYTES))


def load_spec(source: YamlSource) -> TopologySpec:
    """The spec that *source* holds. Raises TopologyError for the first wrong place."""
    raw = read_yaml(source.text, source.path)
    if not isinstance(raw, dict):
        got = "an empty file" if raw is None else short(raw)
        raise source.error((), got, "a mapping with name, wire_ps_per_mm and cube")
    spec = convert_checked(_with_attributes_apart(raw), TopologySpec, source)
    if len(spec.name) > MAX_NAME_CHARACTERS or not spec.name.isprintable() or set(spec.name) & {"/", "\\"}:
        needs = f"at most {MAX_NAME_CHARACTERS} printable characters without slashes"  # files are named after it
        raise source.error(("name",), short(spec.name), needs)
    check_validations(spec.fidelity or [], source)
    return spec


def _with_attributes_apart(raw: dict[str, Any]) -> dict[str, Any]:
    """*raw* with the component attributes of each node moved to `attrs`. Values of a wrong shape stay as they are."""
    for place in NODE_PLACES:
        nodes: Any = raw
        for step in place:
            nodes = nodes.get(step) if isinstance(nodes, dict) else None
        if isinstance(nodes, dict):
            nodes.update({name: _node(node) for name, node in nodes.items()})
    return raw


def _node(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    own = {key: value for key, value in node.items() if key in NODE_KEYS}
    return own | {"attrs": {key: value for key, value in node.items() if key not in NODE_KEYS}}
