"""Dataflow: finds the source of every value that a window reads, symbolically, for all its records at once.

Values are numbered: value v is the one that operand v wrote, or the one that operand v reads if it reads several values
or a part of one. ~c is the content of cell c before the window. Moves that change no type make no new value. A value
has its elements row by row, in whatever shape it is read.
"""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import distinct
from kb_dataexec.execute.fused.accesses.cells import Cells
from kb_dataexec.execute.fused.accesses.operands import operands_of, records_of
from kb_dataexec.execute.fused.accesses.producers import match_reads
from kb_dataexec.log.columns import part
from kb_dataexec.log.schedule import Schedule
from kb_messages import OpKind


class Dataflow:
    """The records [start, stop) of a schedule, their operands, and the way of their values.

    `cells`      the distinct rectangles; `cell[i]` is the cell of operand i
    `producer`   for each operand that is read, the operand that wrote the value; -1 for initial memory; the operand
                 itself if it reads several values, or a part of one
    `live`       the operands whose written values are still valid after the last record
    `by_bytes`   the reads of several values or of parts, and the writes of which a part is still valid
    `released`   the cells of which a value was released

    Raises IrregularError when the records do not have the form that fusing needs.
    """

    def __init__(self, schedule: Schedule, start: int, stop: int) -> None:
        first = schedule.first[start : stop + 1]
        columns = part(schedule.operands, first[0], first[-1])
        self.records = records_of(schedule.ops[start:stop], first)
        self.operands = operands_of(self.records, columns)
        is_release = self.operands.is_release
        self.cells = Cells(columns, self.operands.is_write | is_release)
        self.cell = self.cells.index
        self.released = distinct(self.cell[is_release], len(self.cells))
        self.producer, self.live, self.by_bytes = match_reads(self.operands, self.cells)

    def kind(self, operands: Array) -> Array:
        """The kind of the record of each of *operands*."""
        kind: Array = self.records.kind[self.operands.record[operands]]
        return kind

    def is_cast(self, operands: Array) -> Array:
        """Whether each of *operands* is written by a move that changes its type."""
        dtype = self.operands.dtype
        moved: Array = (self.kind(operands) == OpKind.MEMORY) & self.operands.is_write[operands]
        moved &= dtype[operands] != dtype[operands - 1]
        return moved

    def first_read(self, reads: Array) -> Array:
        """For each of *reads*, the first read in the chain of plain moves that brought its value there."""
        dtype = self.operands.dtype
        while True:
            writer = self.producer[reads]
            copied = (writer >= 0) & (writer != reads) & (self.kind(writer) == OpKind.MEMORY)
            copied &= dtype[writer] == dtype[writer - 1]
            if not copied.any():
                return reads
            reads = np.where(copied, writer - 1, reads)

    def initial_cell(self, reads: Array) -> Array:
        """The cell of initial memory that each of *reads* gets unchanged.

        -1 if the value was computed, cast, or read in another shape.
        """
        first = self.first_read(reads)
        shape = self.cells.shape_id[self.cell]
        return np.where((self.producer[first] >= 0) | (shape[first] != shape[reads]), -1, self.cell[first])

    def value_read(self, reads: Array) -> Array:
        """The value that each of *reads* gets."""
        first = self.first_read(reads)
        writer = self.producer[first]
        return np.where(writer >= 0, writer, ~self.cell[first])

    def value_written(self, writes: Array) -> Array:
        """The value that each of *writes* writes."""
        moved = (self.kind(writes) == OpKind.MEMORY) & ~self.is_cast(writes)
        value = writes.copy()
        value[moved] = self.value_read(writes[moved] - 1)
        return value
