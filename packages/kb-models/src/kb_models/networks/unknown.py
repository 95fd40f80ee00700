"""The parts of a network that are left out: operators that no op computes, and nodes behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Unknown(Exception):
    """An operator, or a form of one, that no op computes. The text says which form of a known operator it is."""


class Lost(Exception):
    """A value whose shape is not known, because it depends on an unknown operator."""


class UnknownNode(NamedTuple):
    """A node that is not run: its operator, with the form that is not known, and its name."""

    operator: str
    name: str


def listed(nodes: Iterable[UnknownNode]) -> str:
    """The *nodes* by operator: how many there are of each, and the name of the first."""
    found = list(nodes)
    first: dict[str, str] = {}
    for node in found:
        first.setdefault(node.operator, node.name)
    counts = Counter(node.operator for node in found)
    return ", ".join(f"{count} {operator} (first {first[operator]})" for operator, count in counts.items())
