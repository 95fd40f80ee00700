"""Races: accesses of two programs of one launch to the same bytes, one of them a write, that nothing puts in order.

Programs run in any order, also those that ran on one PE. So the times of a run play no part in this search: it
compares the bytes of programs. Three steps follow each other, the cheap ones first: bytes that nobody writes, and
memory whose programs have ranges of their own, have no race. What is left is split into sets of bytes, and each set is
looked at.

Messages, credits and signals put accesses in order, and a pair in order is no race. Atomics at the same bytes are in
order too. They may also put other accesses in order, as locks and flags do. Such an order
needs an atomic of one program behind its access, and one of the other program before its own; where both are there,
nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.byte_sets import split_bytes
from kb_dataexec.analysis.races.far_accesses import Accesses, AccessKind
from kb_dataexec.analysis.races.unordered_pairs import IsOrdered, unordered_pairs
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered, numbered_rows, spread
from kb_messages import OFFSET_BITS

_FAR: Final = np.iinfo(np.int64).max
_MOST_FLAG_NBYTES: Final = 8
"""The most bytes of a flag or a lock, which programs poll: one element. Source: the largest element of `tl`."""


class RacePair(NamedTuple):
    """Two accesses that race, by their numbers among all accesses, in the order of commands.

    They stand for all pairs of their two kernel lines. `programs` are the rows of all programs that take part.
    `is_decided` is False if atomics may put each of these pairs in order.
    """

    first: int
    second: int
    programs: Array
    is_decided: bool


def contested(found: Accesses, program: Array, launch: Array) -> Array:
    """Returns the numbers of the accesses of *found* that may race, after proofs that take no look at single bytes.

    *program* has the row of the program of each access, -1 for none, and *launch* the number of its launch.
    """
    at = np.flatnonzero((program >= 0) & (found.row_nbytes > 0) & (found.rows > 0))
    home = homes(found.owner[at], launch[at])
    low = (home << OFFSET_BITS) + found.offset[at]
    high = (home << OFFSET_BITS) + found.end[at]
    kind = found.kind[at]
    writes = kind != AccessKind.READ
    if not writes.any():
        return at[:0]
    kept = _overlaps(low, high, low[writes], high[writes])
    at, low, high, kind = at[kept], low[kept], high[kept], kind[kept]
    area = _areas(low, high)
    kept = ~_apart(area, program[at], low, high) & ~_only(area, kind == AccessKind.ATOMIC)
    at, low, area = at[kept], low[kept], area[kept]
    boxes = found.rows[at], found.row_nbytes[at], found.stride[at]
    return at[~_tiles_apart(numbered(area)[1], program[at], low, boxes)]


def homes(owner: Array, launch: Array) -> Array:
    """Returns a number for each pair of a memory and a launch, which do not share bytes with other pairs."""
    return numbered_rows(launch, owner.astype(np.int64))


def racing(
    found: Accesses,
    program: Array,
    launch: Array,
    returns: Array,
    at: Array,
    is_ordered: IsOrdered | None = None,
) -> Iterator[RacePair]:
    """Yields the races among the accesses numbered *at* of *found*, which stand in the order of commands.

    There is one pair for each two kernel lines, decided ones first. *program* and *launch* are as in `contested`, and
    *at* is its result. *returns* says whether an access reads the value from before an atomic. *is_ordered*
    tells for pairs of accesses of *found*, by number, whether programs that wait for each other put them in order.
    """
    if not len(at):
        return
    some = found.at(at)
    columns = (some.offset, some.rows, some.row_nbytes, some.stride)
    first, member = split_bytes(homes(some.owner, launch[at]), *(each.astype(np.int64) for each in columns))
    access = np.repeat(np.arange(len(at)), np.diff(first))
    is_atomic, in_return = found.kind == AccessKind.ATOMIC, np.isin(found.command_seq, found.command_seq[returns])
    sync = _Sync(some, program[at], access, member)
    sync.order(program, found.command_seq, is_atomic, in_return)
    search = _Search(some, program[at], access, member, sync)
    within = None if is_ordered is None else lambda one, two: is_ordered(at[one], at[two])
    for pair in search.pairs() if within is None else search.pairs_without_order(within):
        yield pair._replace(first=int(at[pair.first]), second=int(at[pair.second]))


def _overlaps(low: Array, high: Array, other_low: Array, other_high: Array) -> Array:
    """Whether each range [low, high) meets one of the other ranges."""
    order = np.argsort(other_low, kind="stable")
    begins, reach = other_low[order], np.maximum.accumulate(other_high[order])
    before = np.searchsorted(begins, high)
    result: Array = (before > 0) & (reach[np.maximum(before, 1) - 1] > low)
    return result


def _areas(low: Array, high: Array) -> Array:
    """The number of the area of each range: ranges that meet, directly or through others, share one."""
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order])
    opens = np.append(True, low[order][1:] >= reach[:-1])[: len(order)]
    area = np.empty(len(low), np.int64)
    area[order] = np.cumsum(opens) - 1
    return area


def _apart(area: Array, program: Array, low: Array, high: Array) -> Array:
    """Whether the programs of the area of each access have ranges of their own, from their first byte to their last."""
    number = numbered_rows(area, program)
    count = int(number.max(initial=-1)) + 1
    begin, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    area_of = np.zeros(count, np.int64)
    np.minimum.at(begin, number, low)
    np.maximum.at(end, number, high)
    area_of[number] = area
    order = np.argsort(begin, kind="stable")  # areas ascend with their ranges, so each one stays together
    reach = np.maximum.accumulate(end[order])
    meeting = np.zeros(int(area.max(initial=-1)) + 1, np.bool_)
    meeting[area_of[order[1:]][begin[order][1:] < reach[:-1]]] = True
    result: Array = ~meeting[area]
    return result


def _tiles_apart(area: Array, program: Array, low: Array, boxes: tuple[Array, Array, Array]) -> Array:
    """Whether the accesses of the area of each access are tiles of one matrix, of which no two programs share a byte.

    *boxes* has the rows, the bytes of a row, and the stride of each access. Bands of rows have to lie one below the
    other, and the tiles of a band side by side. Other matrices are not found to be apart, though they may be.
    """
    rows, row_nbytes, stride = boxes
    count = int(area.max(initial=-1)) + 1
    base, least, most = (np.full(count, value, np.int64) for value in (_FAR, _FAR, 0))
    tall = rows > 1
    np.minimum.at(base, area, low)
    np.minimum.at(least, area[tall], stride[tall])
    np.maximum.at(most, area[tall], stride[tall])
    is_matrix = least == most
    pitch = np.where(is_matrix, np.maximum(most, 1), 1)[area]
    row, col = np.divmod(low - base[area], pitch)
    end = col + row_nbytes
    is_matrix[area[end > pitch]] = False
    order = np.lexsort((col, row + rows, row, area))
    top, bottom, left, right = row[order], (row + rows)[order], col[order], end[order]
    opens = np.append(True, np.diff(area[order]) != 0)[: len(order)]
    bands = opens.copy()
    bands[1:] |= (np.diff(top) != 0) | (np.diff(bottom) != 0)
    meets = np.zeros(len(order), np.bool_)
    meets[1:] = bands[1:] & ~opens[1:] & (top[1:] < bottom[:-1])
    number = np.cumsum(bands) - 1
    width = int(right.max(initial=0)) + 1
    reach = np.maximum.accumulate(number * width + right) - number * width
    starts = bands.copy()
    starts[1:] |= left[1:] >= reach[:-1]
    mine = program[order]
    firsts = np.flatnonzero(starts)
    meets |= mine != mine[firsts[np.cumsum(starts) - 1]]
    is_matrix[area[order][meets]] = False
    result: Array = is_matrix[area]
    return result


def _only(area: Array, chosen: Array) -> Array:
    """Whether all accesses of the area of each access are *chosen*."""
    others = np.zeros(int(area.max(initial=-1)) + 1, np.bool_)
    others[area[~chosen]] = True
    result: Array = ~others[area]
    return result


class _Sync:
    """The atomics, flags and locks among accesses. *access* and *member* pair accesses with their sets of bytes.

    `signals` says whether the program of an access does something that others may wait for, with the access or behind
    it. `waits` says whether the program may have waited for others by then. `is_polled` marks sets of bytes that a
    program reads again and again without atomics.
    """

    signals: Array
    waits: Array

    def __init__(self, found: Accesses, program: Array, access: Array, member: Array) -> None:
        self._found, self._program = found, program
        n_sets = int(member.max(initial=-1)) + 1
        self.is_polled, is_flag = np.zeros(n_sets, np.bool_), np.zeros(n_sets, np.bool_)
        self.is_polled[member[_polled(found, program)[access]]] = True
        is_flag[member[(found.kind == AccessKind.ATOMIC)[access]]] = True
        on_flag = np.zeros(len(program), np.bool_)
        on_flag[access[(is_flag | self.is_polled)[member]]] = True
        small = found.rows * found.row_nbytes <= _MOST_FLAG_NBYTES
        self._sets = on_flag & (found.kind == AccessKind.WRITE)
        self._looks = on_flag & small & (found.kind == AccessKind.READ)

    def order(self, program: Array, command_seq: Array, is_atomic: Array, in_return: Array) -> None:
        """Finds `signals` and `waits`. The arguments describe all accesses of the log, not only those that may race.

        *in_return* marks accesses of commands with an atomic that gives its old value to the program.
        """
        n_programs = int(program.max(initial=-1)) + 1
        last, earliest = np.full(n_programs, -1, np.int64), np.full(n_programs, np.iinfo(np.int64).max)
        found, mine = self._found, self._program
        known = program >= 0
        signal, wait = np.flatnonzero(is_atomic & known), np.flatnonzero(in_return & known)
        for of, seq, chosen in ((program, command_seq, signal), (mine, found.command_seq, self._sets)):
            np.maximum.at(last, of[chosen], seq[chosen])
        for of, seq, chosen in ((program, command_seq, wait), (mine, found.command_seq, self._looks)):
            np.minimum.at(earliest, of[chosen], seq[chosen])
        self.signals = last[mine] >= found.command_seq
        self.waits = earliest[mine] <= found.command_seq


def _polled(found: Accesses, program: Array) -> Array:
    """Whether each access is one of several loads of one element by one kernel line of one program."""
    polled = np.zeros(len(program), np.bool_)
    few = np.flatnonzero((found.kind == AccessKind.READ) & (found.rows * found.row_nbytes <= _MOST_FLAG_NBYTES))
    if len(few):
        number = numbered_rows(program[few], found.line[few], found.owner[few], found.offset[few])
        polled[few] = np.bincount(number)[number] > 1
    return polled


class _Groups(NamedTuple):
    """Accesses of one set of bytes that have one kind, line and state of order: a group for each.

    `first` and `other` are its first access, and its first access by another program, -1 without one.
    """

    member: Array
    first: Array
    other: Array


class _Search:
    """The search in sets of bytes. *access* and *member* pair the accesses *found* with their sets."""

    def __init__(self, found: Accesses, program: Array, access: Array, member: Array, sync: _Sync) -> None:
        self._found, self._program, self._access, self._member, self._sync = found, program, access, member, sync

    def pairs(self) -> Iterator[RacePair]:
        """Yields a pair for each two lines that race."""
        groups = self._groups()
        left, right = self._of_one_set(groups)
        one, two = self._accesses(groups, left, right)
        kinds = self._found.kind[one], self._found.kind[two]
        race = self._program[one] != self._program[two]
        race &= (kinds[0] == AccessKind.WRITE) | (kinds[1] == AccessKind.WRITE) | (kinds[0] != kinds[1])
        member = groups.member[left[race]]
        one, two = np.minimum(one[race], two[race]), np.maximum(one[race], two[race])
        if len(one):
            yield from self._by_lines(one, two, member)

    def pairs_without_order(self, is_ordered: IsOrdered) -> Iterator[RacePair]:
        """Yields a pair for each two lines that race, where messages or signals put some accesses in order."""
        state = self._states()[self._access]
        one, two, member = unordered_pairs(
            self._member, self._access, state, self._program, self._found.kind, is_ordered
        )
        if len(one):
            yield from self._by_lines(one, two, member)

    def _states(self) -> Array:
        """A number of the kind, the line and the state of order of each access."""
        found, sync = self._found, self._sync
        lines = int(found.line.max(initial=0)) + 1
        state: Array = ((found.kind.astype(np.int64) * 2 + sync.signals) * 2 + sync.waits) * lines + found.line
        return state

    def _groups(self) -> _Groups:
        program = self._program
        state = self._states()[self._access]
        order = np.lexsort((self._access, state, self._member))
        access, member, state = self._access[order], self._member[order], state[order]
        opens = np.append(True, (np.diff(member) != 0) | (np.diff(state) != 0))[: len(order)]
        number = np.cumsum(opens) - 1
        first = access[opens]
        differs = np.flatnonzero(program[access] != program[first[number]])[::-1]
        other = np.full(len(first), -1, np.int64)
        other[number[differs]] = access[differs]
        return _Groups(member[opens], first, other)

    def _of_one_set(self, groups: _Groups) -> tuple[Array, Array]:
        """Each two groups of one set, each group with itself too, in sets that several programs use and one writes."""
        kind, program = self._found.kind[groups.first], self._program[groups.first]
        opens = np.flatnonzero(np.append(True, np.diff(groups.member) != 0)[: len(groups.member)])
        number = np.searchsorted(opens, np.arange(len(groups.member)), side="right") - 1
        several = (program != program[opens][number]) | (groups.other >= 0)
        kept = np.ones(len(groups.member), np.bool_)
        for chosen in (kind != AccessKind.ATOMIC, kind != AccessKind.READ, several):
            has = np.zeros(len(opens), np.bool_)
            has[number[chosen]] = True
            kept &= has[number]
        left = np.flatnonzero(kept)
        begin = opens[number[left]]
        right, which = spread(begin, left - begin + 1)
        return left[which], right

    def _accesses(self, groups: _Groups, left: Array, right: Array) -> tuple[Array, Array]:
        """An access of each of two groups, of two programs where there are two."""
        one, two = groups.first[left], groups.first[right]
        same = self._program[one] == self._program[two]
        by_left = same & (groups.other[left] >= 0)
        by_right = same & ~by_left & (groups.other[right] >= 0)
        return np.where(by_left, groups.other[left], one), np.where(by_right, groups.other[right], two)

    def _by_lines(self, one: Array, two: Array, member: Array) -> Iterator[RacePair]:
        """The first of the pairs of each two lines, those first that are decided."""
        found, sync = self._found, self._sync
        ordered = (sync.signals[one] & sync.waits[two]) | (sync.signals[two] & sync.waits[one])
        undecided = ordered | sync.is_polled[member]
        reads = (found.kind[one] == AccessKind.READ) | (found.kind[two] == AccessKind.READ)
        low, high = (each(found.line[one], found.line[two]).astype(np.int64) for each in (np.minimum, np.maximum))
        number = numbered_rows(undecided.astype(np.int64), reads.astype(np.int64), low, high)
        rank = np.lexsort((two, one, number))
        opens = np.flatnonzero(np.append(True, np.diff(number[rank]) != 0))
        alike = np.split(rank, opens[1:])
        for mine in sorted(alike, key=lambda each: (undecided[each[0]], one[each[0]], two[each[0]])):
            pair = mine[0]
            programs = self._taking_part(one[mine], two[mine], member[mine])
            yield RacePair(int(one[pair]), int(two[pair]), programs, not bool(undecided[pair]))

    def _taking_part(self, one: Array, two: Array, member: Array) -> Array:
        """The programs with accesses to the sets *member* like those of the pairs, of the same lines and kinds."""
        found = self._found
        in_sets = np.zeros(int(self._member.max()) + 1, np.bool_)
        in_sets[member] = True
        access = np.unique(self._access[in_sets[self._member]])
        sides = {(int(found.line[each]), int(found.kind[each])) for each in (one[0], two[0])}
        alike = np.zeros(len(access), np.bool_)
        for line, kind in sorted(sides):
            alike |= (found.line[access] == line) & (found.kind[access] == kind)
        return np.unique(self._program[access[alike]])
