"""From a YAML file to a checked TopologySpec."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kb_messages import TopologyError
from kb_topology.checked import convert_checked
from kb_topology.sentences import short
from kb_topology.source import YamlSource
from kb_topology.spec import NODE_KEYS, TopologySpec
from kb_topology.templates import NODE_PLACES
from kb_topology.yaml_reader import read_yaml

_ONLY_YET: dict[str, tuple[int, str]] = {
    "hbm_interleave_nbytes": (0, "interleaving over slices is not supported yet, each slice is contiguous"),
}


def read_source(path: str | os.PathLike[str]) -> YamlSource:
    """The text of the file at *path*. Raises TopologyError when it cannot be read as UTF-8 text."""
    label = os.fspath(path)
    try:
        return YamlSource(label, Path(label).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        got = "no such file"
    except IsADirectoryError:
        got = "a directory"
    except UnicodeDecodeError as error:
        got = f"bytes that are not UTF-8, at byte {error.start}"
    except (OSError, ValueError) as error:
        got = f"a file that cannot be read ({getattr(error, 'strerror', None) or error})"
    raise TopologyError(label, got, "a YAML file in UTF-8")


def load_spec(source: YamlSource) -> TopologySpec:
    """The spec that *source* holds. Raises TopologyError for the first wrong place."""
    raw = read_yaml(source.text, source.path)
    if not isinstance(raw, dict):
        got = "an empty file" if raw is None else short(raw)
        raise source.error((), got, "a mapping with name, wire_ps_per_mm and cube")
    spec = convert_checked(_with_attributes_apart(raw), TopologySpec, source)
    for key, (value, reason) in _ONLY_YET.items():
        got = getattr(spec, key)
        if got != value:
            raise source.error((key,), str(got), str(value), reason)
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
