"""Collectives by levels of the chip: within the cubes, and between the cubes by as many rings as a cube has ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb_engine.collectives import ring as rings
from kb_engine.collectives.acts import Act, ActKind, Acts, Limits, parts_of

Nodes = Sequence[tuple[int, ...]]


def all_reduce(n: int, nodes: Nodes, rank: int, limits: Limits) -> Acts:
    """The sum of all ranks for every rank, in segments of a chunk of *most* elements for each rank of a node.

    A node's ranks sum a chunk each, sum it with the ranks at their place in the other nodes, and gather the chunks.
    """
    node, across = _levels(nodes, rank)
    if len(node) == 1 or len(across) == 1:
        yield from rings.all_reduce(n, _flat(nodes), rank, limits)
        return
    for start, stop in parts_of(0, n, limits.most * len(node)):
        chunks = rings.chunks_of(start, stop, node)
        yield from rings.scatter_sums(chunks, node, rank, is_last=False)
        first, end = chunks[node.index(rank)]
        if first < end:
            parts = rings.chunks_of(first, end, across)
            yield from rings.scatter_sums(parts, across, rank, is_wide=True, loads=False)
            yield from rings.gather_chunks(parts, across, rank, limits.depth, keeps=True)
            yield Act(ActKind.JOIN, first, end)
        yield from rings.gather_chunks(chunks, node, rank, limits.depth)


def reduce_scatter(n: int, nodes: Nodes, rank: int, limits: Limits) -> Acts:
    """The sum of all ranks, chunk r for rank r.

    Within a node, the rank at place p sums the chunks of the ranks at place p of all nodes. These sums go between the
    nodes.
    """
    node, across = _levels(nodes, rank)
    if len(node) == 1 or len(across) == 1:
        yield from rings.reduce_scatter(n, _flat(nodes), rank, limits)
        return
    place, own = node.index(rank), nodes.index(node)
    for cut in _cut(n, nodes, limits.most):
        for pieces in cut:
            yield from rings.scatter_sums(pieces, node, rank, is_last=False)
        yield from rings.scatter_sums([each[place] for each in cut], across, rank, is_wide=True, loads=False)
        start, stop = cut[own][place]
        if start < stop:
            yield Act(ActKind.DONE, start, stop)


def all_gather(n: int, nodes: Nodes, rank: int, limits: Limits) -> Acts:
    """The chunks of all ranks for every rank: first between the ranks at one place, then within the nodes."""
    node, across = _levels(nodes, rank)
    if len(node) == 1 or len(across) == 1:
        yield from rings.all_gather(n, _flat(nodes), rank, limits)
        return
    place, own = node.index(rank), nodes.index(node)
    for cut in _cut(n, nodes, limits.most):
        start, stop = cut[own][place]
        if start < stop:
            yield Act(ActKind.LOAD, start, stop)
        yield from rings.gather_chunks([each[place] for each in cut], across, rank, limits.depth, keeps=True)
        for pieces in cut:
            yield from rings.gather_chunks(pieces, node, rank, limits.depth)


def _levels(nodes: Nodes, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The node of *rank*, and the ranks at its place in all nodes."""
    node = next(each for each in nodes if rank in each)
    place = node.index(rank)
    return node, tuple(each[place] for each in nodes)


def _flat(nodes: Nodes) -> list[int]:
    return [rank for node in nodes for rank in node]


def _cut(n: int, nodes: Nodes, most: int) -> Iterator[list[list[tuple[int, int]]]]:
    """For each part of *most* elements of a chunk: that part of the chunk of each rank, node by node."""
    size = len(nodes[0])
    for pieces in rings.part_by_part(n, _flat(nodes), most):
        yield [pieces[at : at + size] for at in range(0, len(pieces), size)]
