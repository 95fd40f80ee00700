"""Collectives around a ring: each rank receives from the rank before it and sends to the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb_engine.collectives.acts import Act, ActKind, Acts, Limits, chunk_of, parts_of

_Piece = tuple[int, int]


def all_reduce(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The sum of all ranks for every rank: a reduce-scatter, and an all-gather that begins where that ends.

    *n* elements are worked on in segments of two messages for each rank. The two halves of a segment take turns, so
    that one is on its way while the other is added; small segments are not halved. A rank forwards a part before it
    stores it.
    """
    count = len(ring)
    takes_turns = limits.depth > 2  # with two slots, one half would wait for the other forever
    for start, stop in parts_of(0, n, limits.most * count * (1 + takes_turns)):
        size = stop - start
        is_halved = takes_turns and size >= limits.halved_from * count
        halves = parts_of(start, stop, -(-size // 2) if is_halved or size > limits.most * count else size)
        turns = []
        for first, end in halves:
            chunks = chunks_of(first, end, ring)
            turns.append([*_sum_rounds(chunks, ring, rank), *_gather_rounds(chunks, ring, rank, limits.depth)])
        for acts in zip(*turns, strict=True):
            for of_half in acts:
                yield from of_half


def reduce_scatter(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The sum of all ranks, chunk r for rank r. Chunks go in parts of *most* elements."""
    for chunks in part_by_part(n, ring, limits.most):
        yield from scatter_sums(chunks, ring, rank)
        piece = chunks[ring.index(rank)]
        if piece[0] < piece[1]:
            yield Act(ActKind.DONE, *piece)


def all_gather(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The chunks of all ranks for every rank; chunk r of *n* elements comes from rank r."""
    for chunks in part_by_part(n, ring, limits.most):
        piece = chunks[ring.index(rank)]
        if piece[0] < piece[1]:
            yield Act(ActKind.LOAD, *piece)
        yield from gather_chunks(chunks, ring, rank, limits.depth)


def broadcast(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The elements of the first rank of *ring* for every rank, in parts of *most* elements down a chain."""
    at = ring.index(rank)
    for piece in parts_of(0, n, limits.most):
        yield Act(ActKind.TAKE, *piece, ring[at - 1]) if at else Act(ActKind.LOAD, *piece)
        if at + 1 < len(ring):
            yield Act(ActKind.SEND, *piece, ring[at + 1])
        yield Act(ActKind.DONE, *piece)


def all_to_all(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """Chunk r of each rank for rank r, which puts the chunk of rank s at s. In step k, a rank sends k places on."""
    count, at = len(ring), ring.index(rank)
    for start, stop in parts_of(*chunk_of(n, count, rank), limits.most):
        yield Act(ActKind.LOAD, start, stop)
        yield Act(ActKind.DONE, start, stop)
    for step in range(1, count):
        to, source = ring[(at + step) % count], ring[(at - step) % count]
        out, into = parts_of(*chunk_of(n, count, to), limits.most), parts_of(*chunk_of(n, count, source), limits.most)
        for number in range(max(len(out), len(into))):
            if number < len(out):
                yield Act(ActKind.LOAD, *out[number])
                yield Act(ActKind.SEND, *out[number], to, is_last=True)
            if number < len(into):
                yield Act(ActKind.TAKE, *into[number], source)
                yield Act(ActKind.DONE, *into[number])


def chunks_of(start: int, stop: int, ring: Sequence[int]) -> list[_Piece]:
    """The chunk of each place of *ring*, of elements *start* to *stop*."""
    ends = [chunk_of(stop - start, len(ring), at) for at in range(len(ring))]
    return [(start + first, start + last) for first, last in ends]


def part_by_part(n: int, ring: Sequence[int], most: int) -> Iterator[list[_Piece]]:
    """For each part of *most* elements of a chunk: that part of the chunk of each place of *ring*.

    Chunk r belongs to rank r.
    """
    whole = [chunk_of(n, len(ring), rank) for rank in ring]
    for offset in range(0, max(stop - start for start, stop in whole), most):
        yield [(min(start + offset, stop), min(start + offset + most, stop)) for start, stop in whole]


def scatter_sums(
    chunks: Sequence[_Piece], ring: Sequence[int], rank: int, is_wide: bool = False, loads: bool = True,
    is_last: bool = True,
) -> Acts:  # fmt: skip
    """Sums around *ring*: at the end, the rank at place p holds the sum of chunk p.

    *is_wide* says that the ranks begin with sums that are not rounded, *loads* that they have to load their elements,
    and *is_last* that the sums are rounded at the end.
    """
    for acts in _sum_rounds(chunks, ring, rank, is_wide, loads, is_last):
        yield from acts


def gather_chunks(chunks: Sequence[_Piece], ring: Sequence[int], rank: int, depth: int, keeps: bool = False) -> Acts:
    """Chunks around *ring*, to every rank. The rank at place p begins with chunk p.

    With *keeps*, the chunks are copied out of their slots and stay; otherwise each is done when it was forwarded. With
    one slot for a channel, a chunk is copied out before it is forwarded, because the slot has to be free for the next.
    """
    for acts in _gather_rounds(chunks, ring, rank, depth, keeps):
        yield from acts


def _sum_rounds(
    chunks: Sequence[_Piece], ring: Sequence[int], rank: int, is_wide: bool = False, loads: bool = True,
    is_last: bool = True,
) -> Iterator[list[Act]]:  # fmt: skip
    """The acts of `scatter_sums`, step by step. The own elements of a step are loaded during the step before it."""
    count, at = len(ring), ring.index(rank)
    after, before = ring[(at + 1) % count], ring[at - 1]
    order = [chunks[(at - 1 - step) % count] for step in range(count)]
    for number, piece in enumerate(order):
        following = order[number + 1 : number + 2] if number else order[:2]
        acts = [Act(ActKind.LOAD, *each) for each in following if loads and each[0] < each[1]]
        if number and piece[0] < piece[1]:
            ends = is_last and number == count - 1
            acts.append(Act(ActKind.REDUCE, *piece, before, is_wide or number > 1, ends))
        if number < count - 1 and piece[0] < piece[1]:
            acts.append(Act(ActKind.SEND, *piece, after, is_wide or number > 0, True))
        yield acts


def _gather_rounds(
    chunks: Sequence[_Piece], ring: Sequence[int], rank: int, depth: int, keeps: bool = False
) -> Iterator[list[Act]]:
    """The acts of `gather_chunks`, step by step."""
    count, at = len(ring), ring.index(rank)
    after, before = ring[(at + 1) % count], ring[at - 1]
    for step in range(count):
        start, stop = chunks[(at - step) % count]
        acts = []
        if step:
            acts.append(Act(ActKind.TAKE, start, stop, before))
        if step and (keeps or depth == 1):
            acts.append(Act(ActKind.KEEP, start, stop))
        if step < count - 1:
            acts.append(Act(ActKind.SEND, start, stop, after))
        if not keeps:
            acts.append(Act(ActKind.DONE, start, stop))
        yield acts if start < stop else []
