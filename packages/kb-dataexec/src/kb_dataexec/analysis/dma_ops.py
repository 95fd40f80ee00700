"""DmaOps: the DMA ops of a log in columns, with the memory and the number of bytes that each of them moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.log import OpLog, columns_of
from kb_messages import MemorySpace, Role

READ: Final = "dma_read"
WRITE: Final = "dma_write"
_COLUMNS: Final = ("op_id", "component", "name", "params", "t_start_ps", "t_end_ps")
_DENSE: Final = 8
"""Entries for each id up to which a table by id is used. Ids of a log are dense, so a table is faster than a search."""


class FarEnds(NamedTuple):
    """For each DMA op, the `owner` of the memory that it read or wrote, and the `nbytes` that it moved."""

    owner: Array
    nbytes: Array


class DmaRows(NamedTuple):
    """The rows of DMA ops in columns, ascending by `op_id`. `row` is the number of the row in the log.

    `component`, `name` and `params` are the string numbers of the DMA, its stage and its parameters. `start_ps` and
    `end_ps` are the start and the end of the service. `is_read` is True for a read, and False for a write.
    """

    row: Array
    op_id: Array
    component: Array
    name: Array
    params: Array
    start_ps: Array
    end_ps: Array
    is_read: Array

    @classmethod
    def of(cls, log: OpLog) -> DmaRows:
        """Returns the DMA ops of *log*."""
        read, write = (log.strings.index(text) if text in log.strings else -1 for text in (READ, WRITE))
        names = columns_of(log.ops, ("name",))["name"]
        row = np.flatnonzero((names == read) | (names == write))
        op_id, component, name, params, start_ps, end_ps = columns_of(log.ops, _COLUMNS, row).values()
        return cls(row, op_id, component, name, params, start_ps, end_ps, name == read).ascending()

    def ascending(self) -> DmaRows:
        """Returns the rows sorted by `op_id`. Rows of one id keep their order."""
        if (self.op_id[1:] >= self.op_id[:-1]).all():
            return self
        order = np.argsort(self.op_id, kind="stable")
        return DmaRows(*(column[order] for column in self))


class DmaOps:
    """The DMA ops with the columns *rows*. *find_far* finds their far ends when they are first needed."""

    def __init__(self, rows: DmaRows, find_far: Callable[[DmaOps], FarEnds]) -> None:
        self.row, self.op_id, self.component, self.name, self.params, self.start_ps, self.end_ps, self.is_read = rows
        self._find_far = find_far

    @classmethod
    def of(cls, log: OpLog) -> DmaOps:
        """Returns the DMA ops of *log*."""
        return cls(DmaRows.of(log), lambda ops: _far_ends(ops, log.operands))

    def __len__(self) -> int:
        return len(self.row)

    def find(self, op_ids: Array) -> tuple[Array, Array]:
        """Returns (place, found): the index of each of *op_ids* in the ops, and whether it is there.

        Of several ops with one id, it is the first.
        """
        ids = self.op_id
        if not len(ids):
            return np.zeros(len(op_ids), np.int64), np.zeros(len(op_ids), bool)
        if self._by_id is None:
            place = np.minimum(np.searchsorted(ids, op_ids), len(ids) - 1)
            return place, ids[place] == op_ids
        low = int(ids[0])
        is_there = (op_ids >= low) & (op_ids < low + len(self._by_id))
        place = self._by_id[np.where(is_there, op_ids - low, 0)]
        is_there &= place >= 0
        return np.maximum(place, 0), is_there

    @cached_property
    def _by_id(self) -> Array | None:
        """The op of each id from the lowest id on, -1 for none; None if the table would be mostly empty."""
        ids = self.op_id
        low, span = int(ids[0]), int(ids[-1]) - int(ids[0]) + 1
        if span > _DENSE * len(ids):
            return None
        found = np.full(span, -1, np.int32 if len(ids) < 1 << 31 else np.int64)
        found[(ids - low)[::-1]] = np.arange(len(ids))[::-1]  # of equal ids, the first op stays
        return found

    @cached_property
    def far(self) -> FarEnds:
        """The memory and the bytes that each op moved from or to it. Bytes of constants do not count.

        An op of constants alone moved 0 bytes, and its owner is 0.
        """
        return self._find_far(self)


class DmaOpsOnTheWay:
    """Collects the DMA ops of a log, and their far ends, while the log is read chunk by chunk.

    So the operands of the whole log are not needed at a time. A chunk of a log has the operands of its ops.
    """

    def __init__(self) -> None:
        self._rows: list[DmaRows] = []
        self._far: list[FarEnds] = []
        self._n_ops = 0

    def look(self, chunk: OpLog) -> None:
        """Collects the DMA ops of *chunk*, the next chunk of the log."""
        rows = DmaRows.of(chunk)
        self._far.append(DmaOps(rows, lambda ops: _far_ends(ops, chunk.operands)).far)
        self._rows.append(rows._replace(row=rows.row + self._n_ops))
        self._n_ops += chunk.n_ops

    def ops(self) -> DmaOps:
        """The DMA ops of all chunks. Needs at least one chunk."""
        rows = DmaRows(*map(np.concatenate, zip(*self._rows, strict=True)))
        far = FarEnds(*map(np.concatenate, zip(*self._far, strict=True)))
        order = np.argsort(rows.op_id, kind="stable")
        return DmaOps(rows.ascending(), lambda _: FarEnds(*(column[order] for column in far)))


def _far_ends(ops: DmaOps, operands: Array) -> FarEnds:
    """The far ends of *ops*. *operands* has the operands of these ops, and may have others."""
    wanted = np.where(ops.is_read, Role.SRC, Role.DST).astype(np.int8)
    owner, nbytes = np.zeros(len(ops), np.int64), np.zeros(len(ops), np.int64)
    found: dict[int, tuple[Array, Array, Array]] = {}

    def look(chunk: slice) -> None:
        table = operands[chunk]
        near = np.flatnonzero((table["role"] == Role.SRC) | (table["role"] == Role.DST))
        place, is_there = ops.find(table["op_id"][near])
        is_there &= table["role"][near] == wanted[place]
        is_there &= table["space"][near] != MemorySpace.IMMEDIATE.code
        rows = table[near[is_there]]
        found[chunk.start] = place[is_there], rows["owner"], rows["rows"] * rows["row_nbytes"]

    if len(ops):
        in_chunks(look, len(operands))
    for _, (place, owners, sizes) in sorted(found.items()):
        owner[place] = owners
        np.add.at(nbytes, place, sizes)
    return FarEnds(owner, nbytes)
