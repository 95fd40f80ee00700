"""Key shares: which programs read which keys of a decode step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kb_models.layout import Cube, Mesh, Value, cut
from kb_models.layout.cover import Range
from kb_models.ops.attention.heads import Heads

LEAST_KEYS: Final = 128
"""Keys are split over PEs in multiples of as many. Source: measured on one_sip; a merge of two parts takes as long as
about 128 keys of 128 elements in f16."""


class Share(NamedTuple):
    """Keys `start` to `stop` - 1 of a sequence and a key head, which one program reads."""

    sequence: int
    head: int
    program: int
    start: int
    stop: int


class Group(NamedTuple):
    """Cubes with query heads that share key heads `heads` of sequences `rows`."""

    cubes: tuple[Cube, ...]
    rows: Range
    heads: Range


def groups_of(mesh: Mesh, q: Value, heads: Heads) -> list[Group]:
    """The cubes of *q*, in groups that share no key head of a sequence."""
    found: list[Group] = []
    placed = []
    for part, cube in zip(q.parts, mesh.cubes, strict=True):
        rows, (left, right) = part.bounds
        placed.append((rows, heads.of_query(left // heads.head_dim, right // heads.head_dim), cube.number))
    for rows, of_heads, number in sorted(placed):
        cube, last = mesh.cubes[number], found[-1] if found else None
        if last is not None and last.rows == rows and of_heads[0] < last.heads[1]:
            end = max(last.heads[1], of_heads[1])
            found[-1] = Group((*last.cubes, cube), rows, (last.heads[0], end))
        else:
            found.append(Group((cube,), rows, of_heads))
    return found


def key_shares(mesh: Mesh, q: Value, heads: Heads, context: int, page: int) -> list[list[Share]]:
    """For each sequence and key head of *q*, the shares of its *context* keys, in the order of the keys.

    The keys of all sequences and heads of a group lie on one line, and each PE of the group has an equal part of the
    line, in multiples of 128 keys and of *page*. PEs without message queues cannot merge, so one PE has all keys of a
    sequence and a head.
    """
    unit = page * -(-LEAST_KEYS // page) if page else LEAST_KEYS
    found: dict[tuple[int, int], list[Share]] = {}
    for group in groups_of(mesh, q, heads):
        for share in _of_group(mesh, group, context, unit if mesh.has_queues else context):
            found.setdefault((share.sequence, share.head), []).append(share)
    return list(found.values())


def _of_group(mesh: Mesh, group: Group, context: int, unit: int) -> Iterator[Share]:
    pes, n_units = mesh.pes_per_cube, -(-context // unit)
    programs = [cube.number * pes + place for cube in group.cubes for place in range(pes)]
    pairs = [(sequence, head) for head in range(*group.heads) for sequence in range(*group.rows)]
    for number, program in enumerate(programs):
        at, end = cut(len(pairs) * n_units, len(programs), number)
        while at < end:
            (sequence, head), first = pairs[at // n_units], at % n_units
            count = min(end - at, n_units - first)
            yield Share(sequence, head, program, first * unit, min((first + count) * unit, context))
            at += count
