"""Dependencies: the earlier records that touch the same bytes as a record, and the ops that an output depends on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.byte_sets import split_bytes
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import spread
from kb_dataexec.log.columns import RECTANGLE_COLUMNS
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError, Rectangle, Role


class DependencyKind(IntFlag):
    """The reason why a record follows another. A release counts as a read and a write: it un-initialises the bytes."""

    RAW = 1
    WAR = 2
    WAW = 4
    EXPLICIT = 8


class Dependencies(NamedTuple):
    """The dependencies of all records as a sparse matrix. Records are numbered in command order.

    `op_id[i]` is the id of record i. Record i follows the earlier records `producer[first[i]:first[i + 1]]`, which are
    distinct and ascend. `kind` has the reasons of each dependency, as flags of `DependencyKind`.
    """

    op_id: Array
    first: Array
    producer: Array
    kind: Array


def dependencies(log: OpLog, explicit: Iterable[tuple[int, int]] = ()) -> Dependencies:
    """Finds the direct dependencies of all records of *log*, exact to the byte.

    Record i follows an earlier record j if both touch one byte, one of them writes that byte, and no record in between
    writes it. Dependencies that follow from others are left out. The table `dependencies` of the log counts, and
    *explicit* adds pairs (op, op that it follows). The effort grows like n log n in the number of records. Raises
    LogError for an invalid log, for a closed log that lacks an op, and for an explicit dependency on an unknown op, on
    the op itself, or on a later op.
    """
    log.check_gaps("op log")
    return dependencies_in(Schedule(log), explicit)


def dependencies_in(schedule: Schedule, explicit: Iterable[tuple[int, int]] = ()) -> Dependencies:
    """Finds the direct dependencies of all records of *schedule*, as `dependencies` does for a log."""
    n_ops = len(schedule.ops)
    in_table = schedule.followers, schedule.leaders, DependencyKind.EXPLICIT
    found = [*_by_bytes(schedule), in_table, _explicit(schedule.ops["op_id"], explicit)]
    pair = np.concatenate([follower * n_ops + producer for follower, producer, _ in found])
    kind = np.concatenate([np.full(len(follower), kind, np.int64) for follower, _, kind in found])
    order = np.argsort(pair, kind="stable")
    pair, kind = pair[order], kind[order]
    opens = np.flatnonzero(np.append(True, np.diff(pair) != 0)[: len(pair)])
    kinds = np.bitwise_or.reduceat(kind, opens) if len(opens) else kind
    follower, producer = np.divmod(pair[opens], max(n_ops, 1))
    first = np.append(0, np.cumsum(np.bincount(follower, minlength=n_ops)))
    return Dependencies(schedule.ops["op_id"], first, producer, kinds)


def _by_bytes(schedule: Schedule) -> list[tuple[Array, Array, DependencyKind]]:
    """Returns (followers, leaders, reason) for each reason. The same pair may come several times."""
    op, byte_set, reads, writes = _accesses(schedule)
    at = np.arange(len(op))
    begin = np.maximum.accumulate(np.where(np.append(True, np.diff(byte_set) != 0)[: len(at)], at, 0))
    last_write = np.append(-1, np.maximum.accumulate(np.where(writes, at, -1)))[: len(at)]
    written = last_write >= begin
    next_write = np.append(np.minimum.accumulate(np.where(writes, at, len(at))[::-1])[::-1], len(at))[1:]
    overwritten = reads & (next_write < len(at))
    overwritten[overwritten] = byte_set[next_write[overwritten]] == byte_set[overwritten]
    raw, waw = written & reads, written & writes
    return [
        (op[raw], op[last_write[raw]], DependencyKind.RAW),
        (op[waw], op[last_write[waw]], DependencyKind.WAW),
        (op[next_write[overwritten]], op[overwritten], DependencyKind.WAR),
    ]


def _accesses(schedule: Schedule) -> tuple[Array, Array, Array, Array]:
    """Returns (record, byte set, whether it reads, whether it writes) of every access, by byte set and then by
    record."""
    rows = schedule.operands
    columns = [rows[name].astype(np.int64) for name in RECTANGLE_COLUMNS]
    cell = cell_numbers(columns)
    number_of_cells = int(cell.max()) + 1 if len(cell) else 0
    sample = np.zeros(number_of_cells, np.int64)
    sample[cell] = np.arange(len(cell))
    first, member = split_bytes(*(column[sample] for column in columns))
    at, operand = spread(first[cell], (first[1:] - first[:-1])[cell])
    record = np.repeat(np.arange(len(schedule.ops)), np.diff(schedule.first))
    writes = np.isin(rows["role"], [role for role in Role if role.is_write])
    key = member[at] * len(schedule.ops) + record[operand]
    order = np.argsort(key, kind="stable")
    key, operand = key[order], operand[order]
    opens = np.flatnonzero(np.append(True, np.diff(key) != 0)[: len(key)])
    flags = np.where(writes, 2, 1 + 2 * (rows["release"] != 0))[operand]
    flags = np.bitwise_or.reduceat(flags, opens) if len(opens) else flags
    byte_set, op = np.divmod(key[opens], max(len(schedule.ops), 1))
    return op, byte_set, (flags & 1) > 0, (flags & 2) > 0


def cell_numbers(columns: list[Array]) -> Array:
    """Returns a number from 0 on for each row; rows that are equal in all *columns* have the same number."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, rank = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (int(rank.max(initial=0)) + 1) + rank, return_inverse=True)
    return number


def _explicit(op_ids: Array, pairs: Iterable[tuple[int, int]]) -> tuple[Array, Array, DependencyKind]:
    wanted = np.array(list(pairs), np.int64).reshape(-1, 2)
    by_id = np.argsort(op_ids)
    index = (
        by_id[np.minimum(np.searchsorted(op_ids[by_id], wanted), max(len(op_ids) - 1, 0))] if len(op_ids) else wanted
    )
    for (op, after), (follower, producer) in zip(wanted.tolist(), index.tolist(), strict=True):
        if not len(op_ids) or op_ids[follower] != op or op_ids[producer] != after or producer >= follower:
            raise LogError(
                "explicit dependencies", f"op {op} after op {after}", "ops of the log, the second an earlier one"
            )
    return index[:, 0], index[:, 1], DependencyKind.EXPLICIT


def backward_slice(log: OpLog, outputs: Iterable[Rectangle]) -> set[int]:
    """Returns the ids of the ops that the bytes of *outputs* depend on after the whole log, exact to the byte.

    An op belongs to the slice if it wrote a byte that is an output, or that an op of the slice reads, and no other op
    wrote that byte in between. It also belongs to the slice if an op of the slice depends on it explicitly. Raises
    LogError for an invalid log, and for a closed log that lacks an op.
    """
    schedule = Schedule(log)
    log.check_gaps("op log")
    needed = _NeededBytes(schedule)
    for output in outputs:
        needed.add(output)
    found: set[int] = set()
    fields = [schedule.operands[name].tolist() for name in RECTANGLE_COLUMNS]
    writes = np.isin(schedule.operands["role"], [role for role in Role if role.is_write]).tolist()
    first = schedule.first.tolist()
    leaders: dict[int, list[int]] = {}
    for follower, leader in zip(schedule.followers.tolist(), schedule.leaders.tolist(), strict=True):
        leaders.setdefault(follower, []).append(leader)
    wanted: set[int] = set()
    for index in range(len(schedule.ops) - 1, -1, -1):
        span = range(first[index], first[index + 1])
        rectangles = [(Rectangle.of_memory(*(field[at] for field in fields)), writes[at]) for at in span]
        taken = [needed.take(rectangle) for rectangle, written in rectangles if written]
        if any(taken) or index in wanted:
            wanted.update(leaders.get(index, ()))
            found.add(int(schedule.ops["op_id"][index]))
            for rectangle, written in rectangles:
                if not written:
                    needed.add(rectangle)
    return found


class _NeededBytes:
    """One flag for each byte of the used range of each memory. Pages of flags that are never set cost no memory."""

    def __init__(self, schedule: Schedule) -> None:
        rows = schedule.operands
        stops = rows["offset"] + (rows["rows"] - 1) * rows["stride"] + rows["row_nbytes"]
        self._flags: dict[int, tuple[int, Array]] = {}
        for owner in np.unique(rows["owner"]).tolist():
            mine = rows["owner"] == owner
            low, high = int(rows["offset"][mine].min()), int(stops[mine].max())
            self._flags[owner] = (low, np.zeros(high - low, np.bool_))

    def add(self, rectangle: Rectangle) -> None:
        for view in self._views(rectangle):
            view[...] = True

    def take(self, rectangle: Rectangle) -> bool:
        """Returns whether a byte of the rectangle was needed. Afterwards, no byte of it is needed."""
        hit = False
        for view in self._views(rectangle):
            if view.any():
                hit = True
                view[...] = False
        return hit

    def _views(self, rectangle: Rectangle) -> list[Array]:
        """The flags of the rectangle: one view, or one view a row when part of it lies outside the used range."""
        owner, offset, rows, row_nbytes, stride = rectangle.in_memory
        if owner not in self._flags:
            return []
        base, flags = self._flags[owner]
        at = offset - base
        if at >= 0 and at + rectangle.end - rectangle.base <= flags.size:
            return [np.ndarray((rows, row_nbytes), np.bool_, flags, at, (stride, 1))]
        starts = (at + row * stride for row in range(rows))
        return [flags[max(0, start) : max(0, start + row_nbytes)] for start in starts]
