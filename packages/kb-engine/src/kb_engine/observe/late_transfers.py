"""LateTransfers: rows of the op log's table `transfers`. Those of reads are completed when they are taken out."""

from __future__ import annotations

from struct import error

import numpy as np

from kb_dataexec.log.compressed import TRANSFERS, Table, int64s
from kb_engine.fabric.late_reads import ReadWay, completed, pack_row
from kb_engine.observe.repeated import RepeatedRows


class LateTransfers(RepeatedRows):
    """The rows of `transfers`, as KeptTransfers says. A row has the moment at which it is known in front.

    `tail` takes bytes, because to pack a row at once takes less time than to keep its integers. What follows from the
    way and the end of a read is computed for many rows at once when rows are taken out, which is not on the path of the
    simulation where a log is in memory.
    """

    def __init__(self) -> None:
        super().__init__(TRANSFERS)
        self._ways: list[ReadWay] = []

    def number_of(self, way: ReadWay) -> int:
        """The number of *way*, which is new."""
        self._ways.append(way)
        return len(self._ways) - 1

    def add(self, came_ps: int, row: tuple[int, ...]) -> None:
        """All of a *row* is known at *came_ps*. Raises LogError for a time that does not fit 64 bits."""
        try:
            self.tail.append(pack_row(came_ps, *row))
        except error:
            int64s((came_ps, *row))

    @property
    def _n_pending(self) -> int:
        return len(self.tail) * self.form.width

    def _made_of_tail(self) -> Table:
        return np.frombuffer(b"".join(self.tail), np.int64).reshape(-1, self.form.width)

    def _completed(self, rows: Table) -> Table:
        return completed(rows, self._ways)
