"""ChunkRows: what a chunk of a log has for the paths of its windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.dma_ops import DmaOps
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.further import Tables
from kb_dataexec.log.tables import OpLog


class ChunkRows(NamedTuple):
    """The `ops` and the further `tables` of a chunk, the `strings` of its log, and its DMA ops, which know their far
    ends. Its operands need not stay in memory."""

    ops: Array
    tables: Tables
    strings: list[str]
    dma: DmaOps

    @classmethod
    def of(cls, chunk: OpLog) -> ChunkRows:
        """Those of *chunk*."""
        dma = DmaOps.of(chunk)
        dma.keep_far()
        return cls(chunk.ops, chunk.tables, chunk.strings, dma)


def with_tables(chunks: Iterable[OpLog]) -> Iterator[OpLog]:
    """*chunks*, those without further tables joined with the next one that has some.

    What is made of formulas comes so: the tables of several chunks stand in the last one of these.
    """
    pending: list[OpLog] = []
    for chunk in chunks:
        pending.append(chunk)
        if not chunk.tables:
            continue
        ops, operands = (np.concatenate([getattr(each, name) for each in pending]) for name in ("ops", "operands"))
        pending.clear()
        yield OpLog(ops, operands, chunk.strings, chunk.immediates, chunk.is_complete, chunk.tables, chunk.version)
    yield from pending
