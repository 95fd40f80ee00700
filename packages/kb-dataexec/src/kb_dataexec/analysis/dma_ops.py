"""The DMA ops of a log in columns, and what each of them moved."""

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
"""Ids of a log follow each other. A table by number, up to so many numbers for an id, is faster than a search."""


class FarEnds(NamedTuple):
    """For each DMA op, the `owner` of the memory that it read or wrote, and the `nbytes` that it moved."""

    owner: Array
    nbytes: Array


class DmaRows(NamedTuple):
    """The rows of DMA ops in columns, ascending by `op_id`. `row` is the place of each in the log.

    `component`, `name` and `params` number the DMA, its stage and its parameters in the strings of the log. `start_ps`
    and `end_ps` are those of the service. `is_read` tells reads from writes.
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
        """Those of *log*."""
        read, write = (log.strings.index(text) if text in log.strings else -1 for text in (READ, WRITE))
        names = columns_of(log.ops, ("name",))["name"]
        row = np.flatnonzero((names == read) | (names == write))
        op_id, component, name, params, start_ps, end_ps = columns_of(log.ops, _COLUMNS, row).values()
        return cls(row, op_id, component, name, params, start_ps, end_ps, name == read).ascending()

    def ascending(self) -> DmaRows:
        """These rows by `op_id`. Rows of one id keep their order."""
        if (self.op_id[1:] >= self.op_id[:-1]).all():
            return self
        order = np.argsort(self.op_id, kind="stable")
        return DmaRows(*(column[order] for column in self))


class DmaOps:
    """The DMA ops with the columns *rows*. *find_far* finds their far ends when somebody asks for them."""

    def __init__(self, rows: DmaRows, find_far: Callable[[DmaOps], FarEnds]) -> None:
        self.row, self.op_id, self.component, self.name, self.params, self.start_ps, self.end_ps, self.is_read = rows
        self._find_far = find_far

    @classmethod
    def of(cls, log: OpLog) -> DmaOps:
        """Those of *log*."""
        return cls(DmaRows.of(log), lambda ops: _far_ends(ops, log.operands))

    def __len__(self) -> int:
        return len(self.row)

    def find(self, op_ids: Array) -> tuple[Array, Array]:
        """Which of the ops each of *op_ids* is, and whether it is one. Of ops with one id, it is the first."""
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
        """The op of each id from the lowest on, -1 for none; None where such a table would be mostly empty."""
        ids = self.op_id
        low, span = int(ids[0]), int(ids[-1]) - int(ids[0]) + 1
        if span > _DENSE * len(ids):
            return None
        found = np.full(span, -1, np.int32 if len(ids) < 1 << 31 else np.int64)
        found[(ids - low)[::-1]] = np.arange(len(ids))[::-1]  # the first of equal ones stays
        return found

    @cached_property
    def far(self) -> FarEnds:
        """What the ops moved from or to memories, without what came from constants. An op of these alone moved nothing,
        and its owner is 0."""
        return self._find_far(self)


class DmaOpsOnTheWay:
    """Finds the DMA ops of a log, and their far ends, while somebody reads the log chunk by chunk.

    So nobody needs the operands of the whole log. A chunk of a log has the operands of its ops.
    """

    def __init__(self) -> None:
        self._rows: list[DmaRows] = []
        self._far: list[FarEnds] = []
        self._n_ops = 0

    def look(self, chunk: OpLog) -> None:
        """Find those of *chunk*, the next one of the log."""
        rows = DmaRows.of(chunk)
        self._far.append(DmaOps(rows, lambda ops: _far_ends(ops, chunk.operands)).far)
        self._rows.append(rows._replace(row=rows.row + self._n_ops))
        self._n_ops += chunk.n_ops

    def ops(self) -> DmaOps:
        """Those of all chunks, of which there was at least one."""
        rows = DmaRows(*map(np.concatenate, zip(*self._rows, strict=True)))
        far = FarEnds(*map(np.concatenate, zip(*self._far, strict=True)))
        order = np.argsort(rows.op_id, kind="stable")
        return DmaOps(rows.ascending(), lambda _: FarEnds(*(column[order] for column in far)))


def _far_ends(ops: DmaOps, operands: Array) -> FarEnds:
    """The far ends of *ops*, whose *operands* these are, beside those of other ops."""
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
