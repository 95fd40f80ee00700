"""ChunkRows: the rows of a chunk of a log that the paths of its windows need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.dma_ops import DmaOps, DmaOpsOnTheWay
from kb_dataexec.analysis.windows.row_shift import RowShift
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.auxiliary import Tables
from kb_dataexec.log.tables import OpLog

WHOLE: Final = ("commands", "kernels", "messages", "signals", "waits")
"""The tables whose rows are needed in every window."""
REPEATED: Final = ("dispatches", "transfers")
"""The tables whose rows may repeat other rows."""


class ChunkRows(NamedTuple):
    """The `ops` and the auxiliary `tables` of a chunk, the `strings` of its log, and its DMA ops with their far ends.

    Its operands need not stay in memory.
    """

    ops: Array
    tables: Tables
    strings: list[str]
    dma: DmaOps

    @classmethod
    def each(cls, chunks: Iterable[OpLog]) -> Iterator[ChunkRows]:
        """Yields the rows of *chunks*. A chunk without auxiliary tables is joined with the next chunk that has some.

        Compressed rows are read in such chunks: the tables of several chunks stand in the last one.
        """
        ops, dma = list[Array](), DmaOpsOnTheWay()
        for chunk in chunks:
            ops.append(chunk.ops)
            dma.look(chunk)
            if chunk.tables:
                yield cls(_joined(ops), chunk.tables, chunk.strings, dma.ops())
                ops, dma = [], DmaOpsOnTheWay()
        if ops:
            yield cls(_joined(ops), chunk.tables, chunk.strings, dma.ops())

    @property
    def first_op(self) -> int:
        """The id of the first record, which identifies a chunk of its log; -1 without records."""
        return int(self.ops["op_id"][0]) if len(self.ops) else -1

    def shift_to(self, after: ChunkRows) -> RowShift | None:
        """Returns how much later *after* repeats this chunk; None if it does not."""
        if (
            not len(self.ops)
            or len(self.ops) != len(after.ops)
            or any(len(after.tables.get(name, ())) for name in WHOLE)
        ):
            return None
        shift = RowShift(
            *(int(after.ops[name][0]) - int(self.ops[name][0]) for name in ("op_id", "tile_id", "t_out_ps"))
        )
        is_same = shift.ops > 0 and shift.ps > 0 and shift.leads(self.ops, after.ops)
        is_same = is_same and all(map(np.array_equal, self.dma.far, after.dma.far))
        is_same = is_same and self.tables.keys() >= after.tables.keys()
        is_same = is_same and all(
            shift.leads(self.tables[name], after.tables[name]) for name in after.tables if name in REPEATED
        )
        return shift if is_same else None


def _joined(tables: list[Array]) -> Array:
    """Concatenates *tables* of one dtype by copying bytes: numpy would copy records field by field."""
    if len(tables) == 1:
        return tables[0]
    dtype = tables[0].dtype
    return np.concatenate([table.view(f"V{dtype.itemsize}") for table in tables]).view(dtype)
