"""Labels that many lines share, said once below the picture and not beside each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from kb_topology.diagram.chart import Box, Edge

_MANY = 12
"""Lines that share a label. Fewer have their labels beside them."""


def say_once(rows: Sequence[Sequence[Box]], edges: Sequence[Edge]) -> tuple[list[Edge], tuple[str, ...]]:
    """The *edges* between boxes of *rows*, where a label that many lines of one kind share is not on any of them.

    The sentences say these labels.
    """
    kinds = {box.key: box.like or box.key for row in rows for box in row}

    def group(edge: Edge) -> tuple[tuple[str, ...], int, tuple[str, ...]]:
        return edge.label, edge.count, tuple(sorted((kinds[edge.a], kinds[edge.b])))

    counts = Counter(group(edge) for edge in edges if edge.label and edge.says == "all")
    often = {each for each, number in counts.items() if number >= _MANY}
    sentences = [
        f"Each line from {a} to {b}: {f'{links} x ' if links > 1 else ''}{', '.join(label)}."
        for label, links, (a, b) in counts
        if (label, links, (a, b)) in often
    ]
    found = [
        structs.replace(edge, says="heat") if edge.says == "all" and group(edge) in often else edge for edge in edges
    ]
    return found, tuple(sentences)
