"""Collectives in as many rounds as the binary logarithm of the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.collectives.acts import Act, ActKind, Acts, Limits, chunk_of, parts_of


def all_reduce(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The sum of all ranks for every rank: up a binomial tree to the first rank of *ring*, and down again.

    Elements go in parts of *most* elements. The next part goes up while one comes down.
    """
    parts = parts_of(0, n, limits.most)
    for number in range(len(parts) + 1):
        if number < len(parts):
            yield from _up(parts[number], ring, rank)
        if number:
            yield from _down(parts[number - 1], ring, rank)


def broadcast(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The elements of the first rank of *ring* for every rank, down a binomial tree."""
    for part in parts_of(0, n, limits.most):
        if rank == ring[0]:
            yield Act(ActKind.LOAD, *part)
        yield from _down(part, ring, rank)


def _up(part: tuple[int, int], ring: Sequence[int], rank: int) -> Acts:
    at, step, has_sum = ring.index(rank), 1, False
    yield Act(ActKind.LOAD, *part)
    while step < len(ring):
        if at & step:
            yield Act(ActKind.SEND, *part, ring[at - step], has_sum, True)
            return
        if at + step < len(ring):
            is_last = at == 0 and 2 * step >= len(ring)
            child_has_sum = at + step + 1 < len(ring) and step > 1
            yield Act(ActKind.REDUCE, *part, ring[at + step], child_has_sum, is_last)
            has_sum = True
        step *= 2


def _down(part: tuple[int, int], ring: Sequence[int], rank: int) -> Acts:
    at, step = ring.index(rank), 1
    while step < len(ring) and not at & step:
        step *= 2
    if at:
        yield Act(ActKind.TAKE, *part, ring[at - step])
    while step > 1:
        step //= 2
        if at + step < len(ring):
            yield Act(ActKind.SEND, *part, ring[at + step])
    yield Act(ActKind.DONE, *part)


def all_gather(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The chunks of all ranks for every rank, in rounds in which the number of chunks doubles.

    Source: Bruck and others, "Efficient algorithms for all-to-all communications in multiport message-passing
    systems", 1997. A rank that forwards a chunk later copies it out of its slot.
    """
    count, at = len(ring), ring.index(rank)
    for offset in range(0, -(-n // count), limits.most):
        own = _part(n, ring, at, offset, limits.most)
        if own[0] < own[1]:
            yield Act(ActKind.LOAD, *own)
        step = 1
        while step < count:
            moved = min(step, count - step)
            for number in range(moved):
                out, into = (_part(n, ring, at + number + shift, offset, limits.most) for shift in (0, step))
                if out[0] < out[1]:
                    yield Act(ActKind.SEND, *out, ring[at - step])
                if into[0] < into[1]:
                    yield Act(ActKind.TAKE, *into, ring[(at + step) % count])
                    yield Act(ActKind.KEEP, *into)
            step *= 2
        for number in range(count):
            piece = _part(n, ring, at + number, offset, limits.most)
            if piece[0] < piece[1]:
                yield Act(ActKind.DONE, *piece)


def reduce_scatter(n: int, ring: Sequence[int], rank: int, limits: Limits) -> Acts:
    """The sum of all ranks, chunk r for rank r: the rounds of `all_gather` in the other order, with sums."""
    count, at = len(ring), ring.index(rank)
    rounds = [1 << k for k in range((count - 1).bit_length())][::-1]
    for offset in range(0, -(-n // count), limits.most):
        for number in range(count):
            piece = _part(n, ring, at + number, offset, limits.most)
            if piece[0] < piece[1]:
                yield Act(ActKind.LOAD, *piece)
        reduced: set[int] = set()
        for step in rounds:
            yield from _sum_round(n, ring, at, (offset, limits.most, step), reduced)
        piece = _part(n, ring, at, offset, limits.most)
        if piece[0] < piece[1]:
            yield Act(ActKind.DONE, *piece)


def _sum_round(n: int, ring: Sequence[int], at: int, cut: tuple[int, int, int], reduced: set[int]) -> Acts:
    """A round of `reduce_scatter`: sums for ranks `step` places on go there. *reduced* are chunks with sums."""
    offset, most, step = cut
    count = len(ring)
    for number in range(min(step, count - step)):
        out, into = (_part(n, ring, at + number + shift, offset, most) for shift in (step, 0))
        if out[0] < out[1]:
            yield Act(ActKind.SEND, *out, ring[(at + step) % count], number + step in reduced, True)
        if into[0] < into[1]:
            is_last = step == 1
            yield Act(ActKind.REDUCE, *into, ring[at - step], number + step in reduced, is_last)
    reduced |= set(range(min(step, count - step)))


def _part(n: int, ring: Sequence[int], place: int, offset: int, most: int) -> tuple[int, int]:
    """The part from *offset* on of the chunk of the rank at *place*, which may be beyond the end of *ring*."""
    start, stop = chunk_of(n, len(ring), ring[place % len(ring)])
    return min(start + offset, stop), min(start + offset + most, stop)
