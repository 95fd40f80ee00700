"""Bundled chips with other values, as tests change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kb_topology import Topology, loads_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"


def chip_spec(name: str) -> dict[str, Any]:
    """The text of the bundled chip *name* as YAML has it, to be changed."""
    spec: dict[str, Any] = yaml.safe_load((TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8"))
    return spec


def nodes_of_pe(spec: dict[str, Any]) -> dict[str, Any]:
    """The blocks of a PE of *spec*, by name."""
    nodes: dict[str, Any] = spec["cube"]["pe_template"]["nodes"]
    return nodes


def changed_chip(spec: dict[str, Any]) -> Topology:
    """The chip of *spec*."""
    return loads_topology(yaml.safe_dump(spec, sort_keys=False), "changed.yaml")
