"""Records and Operands: the records of a window and their operands as columns, numbered from 0 in the window."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.log.columns import Columns
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.ops.slot_releases import RELEASE_KIND
from kb_messages import OpKind, Role

_ITEMSIZE_BITS: Final = np.array([dtype.nbytes.bit_length() - 1 for dtype in DTYPES])


class Records(NamedTuple):
    """One row for each record: its kind, the index of its params, and the numbers of its first and last operand."""

    kind: Array
    params: Array
    first: Array
    last: Array


class Operands(NamedTuple):
    """One row for each operand. `dtype` is the log's code, `row_nbytes` counts bytes and `cols` elements."""

    record: Array
    role: Array
    dtype: Array
    rows: Array
    row_nbytes: Array
    cols: Array
    is_read: Array
    is_write: Array
    is_release: Array

    def nbytes(self, which: Array | list[int]) -> Array:
        """The number of bytes of each of the operands *which*."""
        nbytes: Array = self.rows[which] * self.row_nbytes[which]
        return nbytes


def records_of(ops: Array, first: Array) -> Records:
    """Returns the records *ops*.

    *first* has the number of the first operand of each in the schedule, and a last end.
    """
    return Records(
        kind=ops["kind"].astype(np.int64),
        params=ops["params"].astype(np.int64),
        first=first[:-1] - first[0],
        last=first[1:] - first[0] - 1,
    )


def operands_of(records: Records, columns: Columns) -> Operands:
    """Returns the operands of *records*. *columns* has their rows, and no others.

    Raises IrregularError for a record without operands, a negative stride, and a move that is no list of SRC, DST pairs
    of equal shape.
    """
    count = records.last - records.first + 1
    is_write = (columns["role"] == Role.DST) | (columns["role"] == Role.OUT)
    if (columns["stride"] < 0).any() or (count == 0).any():
        raise IrregularError("a record without operands, or rows that go backwards")
    operands = Operands(
        record=np.repeat(np.arange(len(count)), count),
        role=columns["role"],
        dtype=columns["dtype"],
        rows=columns["rows"],
        row_nbytes=columns["row_nbytes"],
        cols=_cols(columns["row_nbytes"], columns["dtype"]),
        is_read=~is_write & np.repeat(records.kind != RELEASE_KIND, count),
        is_write=is_write,
        is_release=(columns["release"] != 0) & ~is_write,
    )
    _check_moves(records, operands, count)
    return operands


def _cols(row_nbytes: Array, dtype: Array) -> Array:
    cols = np.empty(len(dtype), np.int64)

    def fill(chunk: slice) -> None:
        cols[chunk] = row_nbytes[chunk] >> _ITEMSIZE_BITS[dtype[chunk]]

    in_chunks(fill, len(cols))
    return cols


def _check_moves(records: Records, operands: Operands, count: Array) -> None:
    is_move = records.kind == OpKind.MEMORY
    if (count[is_move] % 2).any():
        raise IrregularError("a move without pairs")
    moved = np.flatnonzero(is_move[operands.record])
    source, target = moved[::2], moved[1::2]
    if (operands.role[source] != Role.SRC).any() or (operands.role[target] != Role.DST).any():
        raise IrregularError("a move whose operands are no SRC, DST pairs")
    for size in (operands.rows, operands.cols):
        if (size[source] != size[target]).any():
            raise IrregularError("a move that changes shape")
