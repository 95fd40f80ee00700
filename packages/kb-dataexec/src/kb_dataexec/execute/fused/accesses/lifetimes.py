"""Lifetimes of groups of rectangles: what happens in one lifetime has nothing to do with any other one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array


class Accesses(NamedTuple):
    """Operands in the order in which they take effect: by record, and in a record reads, releases and writes.

    `event` is the number of the operand, `cell` its rectangle and `group` the group of that. A read that releases is
    one access.
    """

    event: Array
    record: Array
    cell: Array
    group: Array
    is_write: Array
    is_release: Array


def lifetimes(accesses: Accesses) -> Array:
    """The number of the lifetime of its group to which each access belongs, counted from 0.

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
