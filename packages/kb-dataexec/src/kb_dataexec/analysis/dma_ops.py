"""The DMA ops of a log in columns, and what each of them moved."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.log import OpLog, columns_of
from kb_messages import MemorySpace, Role

READ: Final = "dma_read"
WRITE: Final = "dma_write"
_DENSE: Final = 8
"""Ids of a log follow each other. A table by number, up to so many numbers for an id, is faster than a search."""


class FarEnds(NamedTuple):
    """For each DMA op, the `owner` of the memory that it read or wrote, and the `nbytes` that it moved."""

    owner: Array
    nbytes: Array


class DmaOps:
    """The DMA ops of *log*, ascending by `op_id`. `row` is the place of each in the log.

    `component` and `name` number the DMA and its stage in the strings of the log. `start_ps` and `end_ps` are those of
    the service.
    """

    def __init__(self, log: OpLog) -> None:
        self._log = log
        columns = columns_of(log.ops, ("op_id", "name", "component", "t_start_ps", "t_end_ps"))
        read, write = (log.strings.index(text) if text in log.strings else -1 for text in (READ, WRITE))
        row = np.flatnonzero((columns["name"] == read) | (columns["name"] == write))
        op_id = columns["op_id"][row]
        if (op_id[1:] < op_id[:-1]).any():
            order = np.argsort(op_id, kind="stable")
            row, op_id = row[order], op_id[order]
        self.row, self.op_id = row, op_id
        self.component, self.name, self.start_ps, self.end_ps = (
            columns[each][row] for each in ("component", "name", "t_start_ps", "t_end_ps")
        )
        self.is_read = self.name == read

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
        found = np.full(span, -1)
        found[(ids - low)[::-1]] = np.arange(len(ids))[::-1]  # the first of equal ones stays
        return found

    @cached_property
    def far(self) -> FarEnds:
        """What the ops moved from or to memories, without what came from constants. An op of these alone moved nothing,
        and its owner is 0."""
        operands = self._log.operands
        wanted = np.where(self.is_read, Role.SRC, Role.DST).astype(np.int8)
        owner, nbytes = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        found: dict[int, tuple[Array, Array, Array]] = {}

        def look(chunk: slice) -> None:
            table = operands[chunk]
            near = np.flatnonzero((table["role"] == Role.SRC) | (table["role"] == Role.DST))
            place, is_there = self.find(table["op_id"][near])
            is_there &= table["role"][near] == wanted[place]
            is_there &= table["space"][near] != MemorySpace.IMMEDIATE.code
            rows = table[near[is_there]]
            found[chunk.start] = place[is_there], rows["owner"], rows["rows"] * rows["row_nbytes"]

        if len(self):
            in_chunks(look, len(operands))
        for _, (place, owners, sizes) in sorted(found.items()):
            owner[place] = owners
            np.add.at(nbytes, place, sizes)
        return FarEnds(owner, nbytes)
