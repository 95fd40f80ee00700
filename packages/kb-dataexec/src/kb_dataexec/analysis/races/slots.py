"""Slots of messages: finds the accesses to a slot that the protocol of messages puts in order by itself."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.analysis.races.far_accesses import Accesses, AccessKind
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered
from kb_messages import OFFSET_BITS

_NEVER: Final = np.iinfo(np.int64).max
"""A number behind those of all commands, bytes and times."""


def in_own_slots(found: Accesses, home: Array, pe: Array, sends: Array, receiver: Array) -> Array:
    """Whether each access belongs to a message in a slot that nobody else touches.

    The sender fills the slot once it has the credit, and the receiver uses it from the receipt to the release. So
    these accesses are in order. The same holds for what the receiver did with the bytes before they were a slot: the
    first credit comes when the receiver is done with them. *home* numbers the memory and the launch of each access, and
    *pe* its PE; *sends* is the table, and *receiver* the PE of the receiver of each of its rows.
    """
    if not len(sends):
        return np.zeros(len(home), np.bool_)
    by_seq = np.argsort(sends["command_seq"], kind="stable")
    seqs = sends["command_seq"][by_seq]
    at = np.minimum(np.searchsorted(seqs, found.command_seq), len(seqs) - 1)
    fills = np.flatnonzero((seqs[at] == found.command_seq) & (found.kind == AccessKind.WRITE))
    low, high = (home << OFFSET_BITS) + found.offset, (home << OFFSET_BITS) + found.end
    message = np.full(len(low), -1, np.int64)
    message[fills] = by_seq[at[fills]]
    begin, end, begin_ps = np.full(len(sends), _NEVER), np.full(len(sends), -1, np.int64), np.full(len(sends), _NEVER)
    np.minimum.at(begin, message[fills], low[fills])
    np.minimum.at(begin_ps, message[fills], found.t_start_ps[fills])
    np.maximum.at(end, message[fills], high[fills])
    used = np.flatnonzero(end >= 0)
    start, slot = numbered(begin[used])
    stop = np.zeros(len(start), np.int64)
    np.maximum.at(stop, slot, end[used])
    order = np.lexsort((sends["command_seq"][used], slot))
    used, slot = used[order], slot[order]
    others = np.flatnonzero(message < 0)
    inside = np.searchsorted(start, low[others], side="right") - 1
    inside = np.where((inside >= 0) & (high[others] <= np.append(stop, 0)[inside]), inside, -1)
    held = _held(slot, sends["command_seq"][used], inside, found.command_seq[others])
    row = np.append(used, -1)[held]
    fits = (held >= 0) & (receiver[row] == pe[others]) & (sends["take_seq"][row] <= found.command_seq[others])
    fits &= (found.command_seq[others] < sends["free_seq"][row]) & (sends["take_seq"][row] >= 0)
    message[others[fits]] = row[fits]
    rest = np.flatnonzero(message < 0)
    first_seq, first_ps, owner = np.full((3, len(start)), _NEVER)
    np.minimum.at(first_seq, slot, sends["command_seq"][used])
    np.minimum.at(first_ps, slot, begin_ps[used])
    owner[slot] = receiver[used]
    met = np.searchsorted(stop, low[rest], side="right"), np.searchsorted(start, high[rest])
    is_early = found.command_seq[rest] < _least(first_seq, *met)
    is_early &= (found.t_end_ps[rest] <= _least(first_ps, *met)) & (pe[rest] == np.append(owner, -1)[met[0]])
    rest = rest[~is_early]
    is_shared = _touched(start, stop, low[rest], high[rest])
    slot_of = np.full(len(sends) + 1, -1, np.int64)
    slot_of[used] = slot
    result: Array = (message >= 0) & ~np.append(is_shared, True)[slot_of[message]]
    return result


def _held(slot: Array, seq: Array, wanted: Array, before: Array) -> Array:
    """The last of the messages in slot wanted[i] that was sent before command before[i]; -1 for none.

    *slot* and *seq* describe the messages, in order of both.
    """
    _, rank = np.unique(np.concatenate([seq, before]), return_inverse=True)
    most = int(rank.max(initial=0)) + 1
    found = np.searchsorted(slot * most + rank[: len(seq)], wanted * most + rank[len(seq) :]) - 1
    is_there = (wanted >= 0) & (found >= 0) & (np.append(slot, -1)[found] == wanted)
    return np.where(is_there, found, -1)


def _least(values: Array, first: Array, last: Array) -> Array:
    """The least of values[first[i]:last[i]] for each i; a number above all where there are none."""
    bounds = np.stack([first, np.maximum(last, first)], axis=1).ravel()
    found = np.minimum.reduceat(np.append(values, _NEVER), bounds)[::2] if len(bounds) else values[:0]
    return np.where(first < last, found, _NEVER)


def _touched(start: Array, stop: Array, low: Array, high: Array) -> Array:
    """Whether each of the ranges [start, stop), which ascend, meets one of the ranges [low, high)."""
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order]) if len(order) else high
    before = np.searchsorted(low[order], stop)
    result: Array = (before > 0) & (np.append(reach, 0)[np.maximum(before, 1) - 1] > start)
    return result
