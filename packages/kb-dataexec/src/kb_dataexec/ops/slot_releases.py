"""SlotReleases: the slots of messages that come free in the middle of a log, as records that release their bytes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import spread
from kb_dataexec.log.columns import Columns
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.table_dtypes import OPS_DTYPE, TABLE_DTYPES
from kb_messages import DType, LogError, OpKind, Role

RELEASE_KIND: Final = 1 + max(OpKind)
"""The kind of a record that releases its one operand and does nothing else. No log has such records."""


class _Pending(NamedTuple):
    """Slots that are not released yet: a record and an operand each. The command of a record is that of the release."""

    ops: Array
    operands: Columns


class SlotReleases:
    """The releases of a log with the table *sends*, part by part, in the order of pass 2.

    The bytes of a slot are those that its message wrote. They are gone before command `free_seq`, so a message that is
    missing is an error for its reader, and never the message before it. Raises LogError for a slot that is released
    before its message.
    """

    def __init__(self, sends: Array | None) -> None:
        rows = np.empty(0, TABLE_DTYPES["sends"]) if sends is None else sends
        rows = rows[rows["free_seq"] >= 0]
        early = rows["free_seq"] <= rows["command_seq"]
        if early.any():
            row = rows[int(np.argmax(early))]
            got = f"free_seq {row['free_seq']} of the message of command {row['command_seq']}"
            raise LogError("op log: sends", got, "the number of a later command, or -1")
        order = np.argsort(rows["command_seq"], kind="stable")
        self._seq, self._free_seq = rows["command_seq"][order], rows["free_seq"][order]
        self._pending: list[_Pending] = []

    def insert_into(self, schedule: Schedule, is_last: bool) -> None:
        """Inserts the releases into *schedule*, the next records of the log, as records of RELEASE_KIND.

        Messages of *schedule* that come free later are kept; with *is_last* no later part comes, and they come free at
        its end.
        """
        if len(self._seq):
            schedule.insert(*self._due(schedule, is_last))

    def _due(self, schedule: Schedule, is_last: bool) -> tuple[Array, Array, Columns]:
        """The releases among the records of *schedule*: (places, records, an operand for each)."""
        ops, operands = schedule.ops, schedule.operands
        self._add(ops, operands, schedule.first)
        kept = [*self._pending]
        found = np.concatenate([ops[:0], *(each.ops for each in kept)])
        columns = {
            name: np.concatenate([rows[:0], *(each.operands[name] for each in kept)]) for name, rows in operands.items()
        }
        seqs = ops["command_seq"]
        is_due = np.full(len(found), is_last) | (found["command_seq"] <= seqs.max(initial=-1))
        left = np.flatnonzero(~is_due)
        self._pending = [_Pending(found[left], {name: rows[left] for name, rows in columns.items()})]
        due = np.flatnonzero(is_due)
        due = due[np.argsort(found["command_seq"][due], kind="stable")]
        places = np.searchsorted(seqs, found["command_seq"][due])
        return places, found[due], {name: rows[due] for name, rows in columns.items()}

    def _add(self, ops: Array, operands: Columns, first: Array) -> None:
        """Keeps the slots that messages of *ops* fill."""
        at = np.minimum(np.searchsorted(self._seq, ops["command_seq"]), len(self._seq) - 1)
        records = np.flatnonzero(self._seq[at] == ops["command_seq"])
        operand, which = spread(first[records], first[records + 1] - first[records])
        fills = np.flatnonzero(operands["role"][operand] == Role.DST)
        operand, record = operand[fills], records[which[fills]]
        rows = ops[record]
        rows["command_seq"], rows["kind"] = self._free_seq[at[record]], RELEASE_KIND
        columns = {name: column[operand] for name, column in operands.items()}
        columns["role"] = np.full(len(operand), Role.SRC, np.int8)
        columns["release"] = np.ones(len(operand), np.int8)
        self._pending.append(_Pending(rows, columns))


def insert_slots(schedule: Schedule, slots: Array) -> None:
    """Inserts releases of *slots* into *schedule*: rows (command_seq, owner, offset, nbytes) of int64, in any order.

    The bytes are released before command *command_seq*.
    """
    slots = slots[np.argsort(slots[:, 0], kind="stable")]
    ops: Array = np.zeros(len(slots), OPS_DTYPE)
    ops["command_seq"], ops["kind"] = slots[:, 0], RELEASE_KIND
    operands = {name: np.zeros(len(slots), column.dtype) for name, column in schedule.operands.items()}
    operands |= {"owner": slots[:, 1], "offset": slots[:, 2], "row_nbytes": slots[:, 3], "stride": slots[:, 3]}
    operands["rows"] = np.ones(len(slots), np.int64)
    for name, code in (
        ("role", Role.SRC),
        ("space", slots[:, 1] >> 10 & 15),
        ("dtype", DType.U8.info.code),
        ("release", 1),
    ):
        operands[name] = np.full(len(slots), code, np.int8)
    schedule.insert(np.searchsorted(schedule.ops["command_seq"], slots[:, 0]), ops, operands)
