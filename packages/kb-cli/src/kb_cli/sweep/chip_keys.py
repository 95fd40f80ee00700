"""Keys of chips that a sweep changes: a key that no chip takes is a slip of the pen, which is told before any point."""

from __future__ import annotations

from collections.abc import Mapping

from kb_cli.sweep.expression import number_of
from kb_engine.engine import Registry
from kb_messages import KbError
from kb_topology import Topology, UnknownKeyError, loads_topology

Setting = tuple[str, ...]
"""The name of a topology, and the texts of the values that a point changes in it."""


def check_keys(chips: Mapping[Setting, tuple[str, str]]) -> None:
    """Raise UnknownKeyError when none of *chips* takes all of its keys. *chips* are the text and path of each setting.

    The keys of a chip depend on the names of its blocks and on no number. So one is loaded of those that differ in
    numbers alone. A key that some chips take, and any other error of a chip, belongs to its points.
    """
    kinds: dict[Setting, tuple[str, str]] = {}
    for setting, chip in chips.items():
        kinds.setdefault(tuple("" if number_of(text) is not None else text for text in setting), chip)
    errors = []
    for text, path in kinds.values():
        error = _unknown_key(text, path)
        if error is None:
            return
        errors.append(error)
    if errors:
        raise errors[0]


def _unknown_key(text: str, path: str) -> UnknownKeyError | None:
    try:
        _check_blocks(loads_topology(text, path))
    except UnknownKeyError as error:
        return error
    except KbError:  # the chip's points fail with this sentence
        return None
    return None


def _check_blocks(topology: Topology) -> None:
    """Raise UnknownKeyError for a key that a block of *topology* does not take, and TopologyError for other flaws."""
    registry = Registry()
    for node in {node.yaml_path: node for node in topology.graph.nodes.values()}.values():
        registry.spec(node, topology.source)
