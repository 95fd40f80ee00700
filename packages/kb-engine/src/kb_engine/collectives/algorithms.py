"""The algorithms of each collective: which acts a rank plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kb_engine.collectives import ring, tree, two_level
from kb_engine.collectives.acts import Acts, Limits
from kb_engine.collectives.group import Group
from kb_engine.collectives.sizes import Sizes, most_elements
from kb_messages import KernelError

AUTO: Final = "auto"
RING: Final = "ring"
TREE: Final = "tree"
TWO_LEVEL: Final = "two_level"

_FLAT: Final[dict[str, dict[str, Callable[..., Acts]]]] = {
    "all_reduce": {RING: ring.all_reduce, TREE: tree.all_reduce},
    "reduce_scatter": {RING: ring.reduce_scatter, TREE: tree.reduce_scatter},
    "all_gather": {RING: ring.all_gather, TREE: tree.all_gather},
    "broadcast": {RING: ring.broadcast, TREE: tree.broadcast},
    "all_to_all": {RING: ring.all_to_all},
}
_BY_NODES: Final[dict[str, Callable[..., Acts]]] = {
    "all_reduce": two_level.all_reduce,
    "reduce_scatter": two_level.reduce_scatter,
    "all_gather": two_level.all_gather,
}
_HALVED_FROM: Final = 8192
"""A ring halves chunks whose sums have so many bytes. Source: assumed; a message then takes longer than its start."""
CALLS: Final = tuple(_FLAT)
"""The collectives that move elements."""


def algorithms_of(call: str) -> tuple[str, ...]:
    """The algorithms of collective *call*, without `auto`."""
    return (*_FLAT[call], *((TWO_LEVEL,) if call in _BY_NODES else ()))


def check_algorithm(call: str, algorithm: str, where: str) -> None:
    """Raises KernelError at *where* unless *call* has *algorithm*."""
    if algorithm != AUTO and algorithm not in algorithms_of(call):
        needs = f"one of {', '.join((AUTO, *algorithms_of(call)))}"
        raise KernelError(where, f"{call} with algorithm={algorithm!r}", needs)


def acts_of(call: str, algorithm: str, group: Group, rank: int, sizes: Sizes, root: int = 0) -> Acts:
    """The acts of *rank* for *call*. Rank *root* is the first of a broadcast."""
    most = most_elements(sizes, _sources_of(call, algorithm, group), group.depth, group.slot_nbytes)
    limits = Limits(most, group.depth, _HALVED_FROM // sizes.wide.nbytes)
    if algorithm == TWO_LEVEL:
        return _BY_NODES[call](sizes.n, group.nodes, rank, limits)
    first = group.positions[root] if call == "broadcast" else 0
    order = group.ring[first:] + group.ring[:first]
    return _FLAT[call][algorithm](sizes.n, order, rank, limits)


def segment_elements(call: str, algorithm: str, group: Group, sizes: Sizes) -> int:
    """The elements that all ranks work on at once, each with one message of the most elements. More go in turns."""
    most = most_elements(sizes, _sources_of(call, algorithm, group), group.depth, group.slot_nbytes)
    if call == "broadcast" or (call, algorithm) == ("all_reduce", TREE):
        return most
    if (call, algorithm) == ("all_reduce", TWO_LEVEL) and group.has_two_levels:
        return most * len(group.nodes[0])
    return most * len(group) * (2 if call == "all_reduce" and group.depth > 2 else 1)


def _sources_of(call: str, algorithm: str, group: Group) -> int:
    """The most ranks from which one rank receives."""
    if call == "all_to_all":
        return max(1, len(group) - 1)
    if algorithm == TREE:
        return (len(group) - 1).bit_length() + 1
    return 2 if algorithm == TWO_LEVEL and group.has_two_levels else 1
