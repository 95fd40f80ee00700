"""match_reads: matches each read of a window with the write that produced its bytes, for all reads at once.

Most rectangles are written and read whole, though perhaps in another shape. They are matched as wholes, by groups of
rectangles that share bytes. Groups for which this is not possible are matched by bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_parallel, parts
from kb_dataexec.execute.fused.accesses.byte_matches import ByteMatches, match_bytes
from kb_dataexec.execute.fused.accesses.cells import Cells
from kb_dataexec.execute.fused.accesses.operands import Operands

_WORTH_THREADS: Final = 1 << 14
"""Operands from which threads are used. Source: assumed; matching 397 thousand took 24 ms, so these take about 1 ms."""


class Producers(NamedTuple):
    """The writes that produced the bytes of reads.

    `producer`  for each operand that is read, the operand that wrote its value; -1 for initial memory and for writes;
                the operand itself for a read of several values, or of a part of one
    `live`      the operands of whose written values all bytes are still valid after the window
    `by_bytes`  the matches by bytes
    """

    producer: Array
    live: Array
    by_bytes: ByteMatches


class _Matched(NamedTuple):
    live: Array
    unmatched: Array


def match_reads(operands: Operands, cells: Cells) -> Producers:
    """Finds the producer of every read. Raises IrregularError for a read of released bytes."""
    producer = np.full(len(operands.record), -1)
    touched = np.zeros(len(cells), np.bool_)
    touched[cells.group[cells.changed]] = True
    events = np.flatnonzero(touched[cells.group][cells.index])
    if not len(events):
        return Producers(producer, events, match_bytes(operands, cells, events, producer))
    events, label = _by_label(events, cells.group[cells.index[events]], int(cells.group.max()))
    matched: dict[int, _Matched] = {}

    def match(some: slice) -> None:
        matched[some.start] = _match_groups(operands, cells, events[some], label[some], producer)

    in_parallel(match, _whole_groups(label))
    live, unmatched = (np.concatenate(each) for each in zip(*(matched[at] for at in sorted(matched)), strict=True))
    by_bytes = match_bytes(operands, cells, unmatched, producer)
    return Producers(producer, np.concatenate([live, by_bytes.live]), by_bytes)


def _match_groups(operands: Operands, cells: Cells, events: Array, label: Array, producer: Array) -> _Matched:
    """Fills *producer* for *events*, the operands of whole groups.

    Returns the live writes among them, and the events of groups in which a read has no single producer of its shape, or
    a live value is overwritten in part. *events* are sorted by group, which *label* gives, and then by record.
    """
    events, opens, writes_twice = _by_phase(operands, events, label)
    reads, writes, cell = operands.is_read[events], operands.is_write[events], cells.index[events]
    at = np.arange(len(events))
    begin = np.maximum.accumulate(np.where(opens, at, 0))
    last_write = np.maximum.accumulate(np.where(writes, at, -1))
    last_release = np.maximum.accumulate(np.where(operands.is_release[events], at, -1))
    write_before, release_before = _shifted(last_write), _shifted(last_release)
    valid = (write_before >= begin) & (release_before < write_before)
    run = cells.run[cell]
    same = run[write_before] == run
    untouched = (write_before < begin) & (release_before < begin)
    bad = writes_twice | (reads & ~(valid & same) & ~untouched)
    buried = np.flatnonzero(writes & valid & ~same)
    bad[buried[~cells.cover(cell[buried], cell[write_before[buried]])]] = True
    good = np.ones(len(events), np.bool_)
    if bad.any():
        group = np.cumsum(opens) - 1
        good = np.bincount(group[bad], minlength=int(group[-1]) + 1)[group] == 0
    produced = reads & valid & good
    producer[events[produced]] = events[write_before[produced]]
    left = np.append(opens[1:], True) & (last_write >= begin) & (last_release < last_write) & good
    return _Matched(events[last_write[left]], events[~good])


def _by_phase(operands: Operands, events: Array, label: Array) -> tuple[Array, Array, Array]:
    """Returns (*events* by group, record and phase; whether each opens a group; whether its record wrote the group
    before).

    The phases are read, release and write.
    """
    record = operands.record[events]
    phase = np.where(operands.is_write[events], np.int8(2), operands.is_release[events])
    beside = (label[1:] == label[:-1]) & (record[1:] == record[:-1])
    if (beside & (phase[1:] < phase[:-1])).any():
        order = np.lexsort((phase, record, label))
        events, phase = events[order], phase[order]
    writes_twice = np.append(False, beside & (phase[1:] == 2) & (phase[:-1] == 2))
    return events, np.append(True, label[1:] != label[:-1]), writes_twice


def _by_label(events: Array, label: Array, most: int) -> tuple[Array, Array]:
    """*events* and their labels, sorted by label. Labels are 0 to *most*."""
    # numpy sorts numbers of at most 16 bits in linear time, and few windows have more groups than such numbers.
    order = np.argsort(label.astype(np.min_scalar_type(most)), kind="stable")
    return events[order], label[order]


def _whole_groups(label: Array) -> list[slice]:
    """Parts for the worker threads. *label* is sorted; a part never ends within a label."""
    if len(label) < _WORTH_THREADS:
        return [slice(0, len(label))]
    cuts = sorted({int(np.searchsorted(label, label[part.start])) for part in parts(len(label))})
    return list(map(slice, cuts, [*cuts[1:], len(label)]))


def _shifted(values: Array) -> Array:
    return np.append(-1, values[:-1])
