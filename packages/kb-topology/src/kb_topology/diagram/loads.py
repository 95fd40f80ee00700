"""The loads of a run: the utilization of the parts of a chip, and the texts of boxes and lines for several parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kb_topology.diagram.chart import Heat, percent


class LinkLoad(Struct, frozen=True):
    """The share of time in service (0 to 1) of one link in one direction, and the bytes that it carried."""

    utilization: float
    nbytes: int


class NodeLoad(Struct, frozen=True):
    """The share of time in service (0 to 1) of one block or memory, and its numbers in words.

    `nbytes` are the bytes that a memory moved, and None for a block that counts no bytes.
    """

    utilization: float
    words: str
    nbytes: int | None = None


class Loads(Struct, frozen=True):
    """A run: its name, its links by the ids of their ends, and its blocks and memories by id."""

    name: str
    links: Mapping[tuple[str, str], LinkLoad]
    nodes: Mapping[str, NodeLoad]


def heat_of(utilizations: Sequence[float]) -> Heat | None:
    """The busiest of and the mean over *utilizations*; None when nothing was measured."""
    return Heat(max(utilizations), sum(utilizations) / len(utilizations)) if utilizations else None


def links_tip(loads: Sequence[tuple[tuple[str, str], LinkLoad]]) -> str:
    """The tooltip of one direction of a line: the numbers of its link, or of its busiest link and of all together."""
    (src, dst), top = max(loads, key=lambda each: each[1].utilization)
    text = f"{src} to {dst}: busy {percent(top.utilization)}, {rounded_nbytes(top.nbytes)}"
    if len(loads) == 1:
        return text
    mean = percent(sum(load.utilization for _, load in loads) / len(loads))
    return (
        f"busiest of {len(loads)}: {text}; mean {mean}, {rounded_nbytes(sum(load.nbytes for _, load in loads))} in all"
    )


def nodes_tip(loads: Sequence[tuple[str, NodeLoad]]) -> str:
    """The tooltip of a block, or of several: the numbers of the busiest, and the mean over all."""
    node_id, top = max(loads, key=lambda each: each[1].utilization)
    text = f"{node_id}: {top.words}"
    if len(loads) == 1:
        return text
    return f"busiest of {len(loads)}: {text}; mean {percent(sum(load.utilization for _, load in loads) / len(loads))}"


def rounded_nbytes(nbytes: int) -> str:
    """*nbytes* with three digits: `1.25 MiB`."""
    size, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1000 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.3g} {units[0]}"
