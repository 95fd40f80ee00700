"""Matches each read of a window with the write that produced its bytes, for all reads at once.

A read must get its bytes from exactly one write, which may have given them another shape, or from the memory as it was
before the window. Everything else raises
IrregularError: bytes from several writes, released bytes, and a live value of which a part is overwritten.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_parallel, parts
from kb_dataexec.execute.fused.cells import Cells
from kb_dataexec.execute.fused.conflicts import IrregularError
from kb_dataexec.execute.fused.operands import Operands

_WORTH_THREADS: Final = 1 << 14
"""Operands. Source: assumed. Matching 397 thousand took 24 ms, so this many take about 1 ms."""


class Producers(NamedTuple):
    """`producer`: for each operand that is read, the operand that wrote its value; -1 for initial memory and writes.

    `live`: the operands whose written values are still valid after the window.
    """

    producer: Array
    live: Array


def match_reads(operands: Operands, cells: Cells) -> Producers:
    """The producer of every read. Raises IrregularError where a read has no single producer."""
    producer = np.full(len(operands.record), -1)
    touched = np.zeros(len(cells), np.bool_)
    touched[cells.group[cells.changed]] = True
    events = np.flatnonzero(touched[cells.group][cells.index])
    if not len(events):
        return Producers(producer, events)
    events, label = _by_label(events, cells.group[cells.index[events]], int(cells.group.max()))
    live: dict[int, Array] = {}

    def match(some: slice) -> None:
        live[some.start] = _match_groups(operands, cells, events[some], label[some], producer)

    in_parallel(match, _whole_groups(label))
    return Producers(producer, np.concatenate([live[start] for start in sorted(live)]))


def _match_groups(operands: Operands, cells: Cells, events: Array, label: Array, producer: Array) -> Array:
    """Fill *producer* for *events*, the operands of whole groups. Returns the live writes among them.

    *events* are sorted by group, which *label* gives, and then by record.
    """
    events, opens = _by_phase(operands, events, label)
    writes, cell = operands.is_write[events], cells.index[events]
    at = np.arange(len(events))
    begin = np.maximum.accumulate(np.where(opens, at, 0))
    last_write = np.maximum.accumulate(np.where(writes, at, -1))
    last_release = np.maximum.accumulate(np.where(operands.is_release[events], at, -1))
    write_before, release_before = _shifted(last_write), _shifted(last_release)
    valid = (write_before >= begin) & (release_before < write_before)
    run = cells.run[cell]
    same = run[write_before] == run
    untouched = (write_before < begin) & (release_before < begin)
    if (~writes & ~(valid & same) & ~untouched).any():
        raise IrregularError("a read of bytes from several writes, or of released ones")
    buried = writes & valid & ~same
    if not cells.cover(cell[buried], cell[write_before[buried]]).all():
        raise IrregularError("a live value that is overwritten in part")
    produced = ~writes & valid
    producer[events[produced]] = events[write_before[produced]]
    ends = np.append(opens[1:], True)
    left = ends & (last_write >= begin) & (last_release < last_write)
    return events[last_write[left]]


def _by_phase(operands: Operands, events: Array, label: Array) -> tuple[Array, Array]:
    """(*events* by group, record and phase, whether each opens a group). The phases are read, release and write."""
    record = operands.record[events]
    phase = np.where(operands.is_write[events], np.int8(2), operands.is_release[events])
    beside = (label[1:] == label[:-1]) & (record[1:] == record[:-1])
    if (beside & (phase[1:] < phase[:-1])).any():
        order = np.lexsort((phase, record, label))
        events, phase = events[order], phase[order]
    if (beside & (phase[1:] == 2) & (phase[:-1] == 2)).any():
        raise IrregularError("an op that writes overlapping bytes twice")
    return events, np.append(True, label[1:] != label[:-1])


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
