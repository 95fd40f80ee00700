"""match_bytes: matches reads with writes byte by byte, where rectangles are not written and read whole.

The bytes of all rectangles are split into the coarsest sets of which every rectangle is a union. Each set has a history
of reads, releases and writes of its own. From time to time, all registers of a group are released. The accesses between
two such times (a lifetime) are matched by themselves: the rectangles of a few ops split the bytes into few sets.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.byte_sets import ByteSets, split_bytes
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import distinct, numbered, numbered_rows, spread
from kb_dataexec.execute.fused.accesses.cells import Cells
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.execute.fused.accesses.operands import Operands

_MOST_PARTS: Final = 12
"""The most sets of bytes of an operand, on average. Source: assumed; logs of kernels have 1 to 4. A window with more is
halved."""
_FEW_PARTS: Final = 1 << 16
"""A number of sets of bytes that is never too large. Source: assumed."""


class ByteMatches(NamedTuple):
    """The matches by bytes. Writes stand in the order in which they take effect.

    `reads`    the operands that read several values, or a part of one. Read i gets the bytes that the operands
               `writer[first[i]:first[i + 1]]` wrote, later ones over earlier ones; a writer of -1 is initial memory,
               for the bytes that no operand wrote
    `live`     the operands of whose written values all bytes are valid after the window
    `partial`  the operands of whose written values some bytes are valid after the window
    `undone`   the operands that read and released bytes which would come back with the values of `partial`
    """

    reads: Array
    first: Array
    writer: Array
    live: Array
    partial: Array
    undone: Array


class _Matched(NamedTuple):
    """`producer` of each access, and the accesses in `initial` that read bytes which no access of their lifetime
    wrote."""

    matches: ByteMatches
    producer: Array
    initial: Array


class _History(NamedTuple):
    """Accesses of sets of bytes, by set and then in order. `before` is the last one of an earlier record, or -1."""

    access: Array
    byte_set: Array
    closes: Array
    before: Array
    last_write: Array
    last_release: Array


def match_bytes(operands: Operands, cells: Cells, events: Array, producer: Array) -> ByteMatches:
    """Matches the reads among *events*, and fills *producer* for them (see `Producers`).

    *events* are all operands that touch the rectangles that they touch. Raises IrregularError for a read of released
    bytes, and if the bytes are split into too many sets.
    """
    none = events[:0]
    if not len(events):
        return ByteMatches(none, np.zeros(1, np.int64), none, none, none, none)
    accesses = _in_order(operands, cells, events)
    lifetime = lifetimes(accesses)
    found = _matched(accesses, cells, lifetime)
    late = found.initial[lifetime[found.initial] > 0]
    if len(late):
        again = np.isin(accesses.group, accesses.group[late])
        found = _matched(accesses, cells, np.where(again, 0, lifetime))
    producer[accesses.event] = found.producer
    return found.matches


def _in_order(operands: Operands, cells: Cells, events: Array) -> Accesses:
    """*events* by record and phase: read, release and write."""
    phase = np.where(operands.is_write[events], 2, operands.is_release[events])
    event = events[np.lexsort((events, phase, operands.record[events]))]
    cell = cells.index[event]
    changes = operands.is_read[event], operands.is_write[event], operands.is_release[event]
    return Accesses(event, operands.record[event], cell, cells.group[cell], *changes)


def _matched(accesses: Accesses, cells: Cells, lifetime: Array) -> _Matched:
    """The matches, each within one lifetime of its group."""
    used, place = numbered(accesses.cell * (int(lifetime.max()) + 1) + lifetime)
    cell, own = np.divmod(used, int(lifetime.max()) + 1)
    home = numbered_rows(cells.group[cell], own)
    sets = split_bytes(home, *(column[cell] for column in cells.columns[1:5]))
    count = np.diff(sets.first)[place]
    if count.min() < 1:
        raise IrregularError("a rectangle without bytes")
    if count.sum() > max(_MOST_PARTS * len(count), _FEW_PARTS):
        raise IrregularError("too many parts of rectangles")
    at, number = spread(sets.first[place], count)
    history = _history(sets.member[at], number, accesses)
    reader, writer = _read(history, accesses)
    low, high = np.full(len(count), len(count)), np.full(len(count), -1)
    np.minimum.at(low, reader, writer)
    np.maximum.at(high, reader, writer)
    reads = accesses.is_read
    whole = reads & (low == high) & (low >= 0)
    run = cells.run[accesses.cell]
    whole[whole] = run[low[whole]] == run[whole]
    several = reads & ~whole & (high >= 0)
    producer = np.full(len(count), -1)
    producer[whole] = accesses.event[low[whole]]
    producer[several] = accesses.event[several]
    parts = _parts(accesses.event, reader[several[reader]], writer[several[reader]])
    left = (accesses.event[each] for each in _left(history, sets, place, count))
    return _Matched(ByteMatches(*parts, *left), producer, np.flatnonzero(reads & (low < 0)))


def _parts(event: Array, reader: Array, writer: Array) -> tuple[Array, Array, Array]:
    """`reads`, `first` and `writer` of `ByteMatches`, from pairs of a reading access and the writing access, or -1."""
    pairs = np.unique(reader * (len(event) + 1) + writer + 1)
    reader, writer = np.divmod(pairs, len(event) + 1)
    opens = np.flatnonzero(np.append(True, np.diff(reader) != 0)[: len(reader)])
    order = np.argsort(event[reader[opens]], kind="stable")
    size = np.diff(np.append(opens, len(reader)))[order]
    writer = writer[spread(opens[order], size)[0]] - 1
    reads: Array = event[reader[opens]][order]
    return reads, np.append(0, np.cumsum(size)), np.where(writer >= 0, event[writer], -1)


def _history(byte_set: Array, access: Array, accesses: Accesses) -> _History:
    """The history of the sets, where access[i] touches byte_set[i]."""
    bits = len(accesses.event).bit_length()
    key = byte_set << bits | access
    key.sort()
    byte_set, access = key >> bits, key & (1 << bits) - 1
    at, record = np.arange(len(key)), accesses.record[access]
    opens = np.append(True, byte_set[1:] != byte_set[:-1])
    fresh = opens | np.append(True, record[1:] != record[:-1])
    begin = np.maximum.accumulate(np.where(opens, at, 0))
    before = np.maximum.accumulate(np.where(fresh, at, 0)) - 1
    last_write, last_release = (
        np.maximum.accumulate(np.where(each[access], at, -1)) for each in (accesses.is_write, accesses.is_release)
    )
    for last in (last_write, last_release):
        last[last < begin] = -1
    closes = np.append(opens[1:], True)
    return _History(access, byte_set, closes, np.where(before >= begin, before, -1), last_write, last_release)


def _read(history: _History, accesses: Accesses) -> tuple[Array, Array]:
    """Returns (the access that reads, the access that wrote the bytes or -1), for each set of bytes that an access
    reads."""
    at = np.flatnonzero(accesses.is_read[history.access])
    before = history.before[at]
    written = np.where(before >= 0, history.last_write[before], -1)
    released = np.where(before >= 0, history.last_release[before], -1)
    if (released > written).any():
        raise IrregularError("a read of released bytes")
    return history.access[at], np.where(written >= 0, history.access[written], -1)


def _left(history: _History, sets: ByteSets, place: Array, count: Array) -> tuple[Array, Array, Array]:
    """`live`, `partial` and `undone` of `ByteMatches`, as accesses. Access i touches the sets of rectangle place[i]."""
    ends = np.flatnonzero(history.closes)
    written, released = history.last_write[ends], history.last_release[ends]
    n_valid = np.bincount(history.access[written[written > released]], minlength=len(place))
    partial = np.flatnonzero((n_valid > 0) & (n_valid < count))
    covered = np.zeros(int(history.byte_set[-1]) + 1, np.bool_)
    covered[sets.member[spread(sets.first[place[partial]], count[partial])[0]]] = True
    undone = (released > written) & covered[history.byte_set[ends]]
    return (
        np.flatnonzero((n_valid > 0) & (n_valid == count)),
        partial,
        distinct(history.access[released[undone]], len(place)),
    )


class Accesses(NamedTuple):
    """Operands in the order in which they take effect: by record, and in a record reads, releases and writes.

    `event` is the number of the operand, `cell` its rectangle, and `group` the group of that rectangle. A read that
    releases is one access.
    """

    event: Array
    record: Array
    cell: Array
    group: Array
    is_read: Array
    is_write: Array
    is_release: Array


def lifetimes(accesses: Accesses) -> Array:
    """Returns the number, from 0, of the lifetime of its group to which each access belongs.

    A lifetime ends after a record that leaves no rectangle of the group written and not released. So no byte of the
    group is valid then, except bytes that no access has touched.
    """
    at = np.arange(len(accesses.cell))
    order = np.argsort(accesses.cell, kind="stable")
    opens = np.append(True, np.diff(accesses.cell[order]) != 0)[: len(at)]
    writes, releases = accesses.is_write[order], accesses.is_release[order]
    last = np.maximum.accumulate(np.where(writes | releases | opens, at, -1))
    is_live = writes[last]
    was_live = np.append(False, is_live[:-1])[: len(at)] & ~opens
    change = np.empty(len(at), np.int64)
    change[order] = is_live.astype(np.int64) - was_live
    order = np.argsort(accesses.group, kind="stable")
    group, record = accesses.group[order], accesses.record[order]
    n_live = np.cumsum(change[order])
    opens = np.append(True, np.diff(group) != 0)[: len(at)]
    begin = np.maximum.accumulate(np.where(opens, at, 0))
    n_live -= (n_live - change[order])[begin]
    ends = (n_live == 0) & np.append(np.diff(record) != 0, True)[: len(at)]
    ended = np.append(0, np.cumsum(ends)[:-1])[: len(at)]
    number = np.empty(len(at), np.int64)
    number[order] = ended - ended[begin]
    return number
