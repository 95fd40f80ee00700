"""Pairs of accesses to the same bytes by two programs that no message, credit or signal puts in order.

The accesses of one program are in order. So of all its accesses of one kind and line before another access, the last
one alone has to be looked at: where that one comes before the other access, all of them do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from kb_dataexec.analysis.races.far_accesses import AccessKind
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered_rows, spread

IsOrdered = Callable[[Array, Array], Array]
"""Whether each access of the first array comes before that of the second. Accesses stand in the order of commands."""

_MOST_PAIRS: Final = 1 << 21
"""Pairs of an access and a group that are compared at a time. Source: assumed; 150 MB."""


def unordered_pairs(
    member: Array, access: Array, state: Array, program: Array, kind: Array, is_ordered: IsOrdered
) -> tuple[Array, Array, Array]:
    """Returns (an access, a later access that conflicts with it in no order, the set of bytes that both touch).

    Access access[i] touches set member[i] and has the kind, line and other properties numbered state[i]; *program* and
    *kind* are those of accesses, by number. Of the accesses of one program and state, one pair is returned for each
    other program and state.
    """
    order = np.lexsort((access, state, program[access], member))
    access, member, state = access[order], member[order], state[order]
    group = numbered_rows(member, program[access], state)  # groups of one set follow each other
    first_group = np.full(int(member.max(initial=-1)) + 2, len(access), np.int64)
    np.minimum.at(first_group, member, group)
    n_groups = int(group.max(initial=-1)) + 1
    opens = np.flatnonzero(np.append(True, np.diff(group) != 0)[: len(group)])
    key = group * (int(access.max(initial=0)) + 1) + access
    of_set = np.bincount(member[opens], minlength=len(first_group))
    count = of_set[member]
    found = []
    for some in _blocks(count):
        other, which = spread(first_group[member[some]], count[some])
        mine = some.start + which
        one_kind, two_kind = kind[access[opens[other]]], kind[access[mine]]
        conflict = (one_kind == AccessKind.WRITE) | (two_kind == AccessKind.WRITE) | (one_kind != two_kind)
        conflict &= program[access[opens[other]]] != program[access[mine]]
        other, mine = other[conflict], mine[conflict]
        at = np.searchsorted(key, other * (int(access.max(initial=0)) + 1) + access[mine]) - 1
        is_there = (at >= 0) & (group[np.maximum(at, 0)] == other)
        at, mine = at[is_there], mine[is_there]
        races = np.flatnonzero(~is_ordered(access[at], access[mine]))
        _, once = np.unique(group[at[races]] * n_groups + group[mine[races]], return_index=True)
        found.append((access[at[races[once]]], access[mine[races[once]]], member[mine[races[once]]]))
    one, two, where = (np.concatenate(each) for each in zip(*found, strict=True)) if found else (access,) * 3
    return one, two, where


def _blocks(count: Array) -> Iterator[slice]:
    """Slices of *count* whose sums are at most _MOST_PAIRS, or of one element."""
    ends = np.cumsum(count)
    start = 0
    while start < len(count):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _MOST_PAIRS, side="right")), start + 1)
        yield slice(start, stop)
        start = stop
