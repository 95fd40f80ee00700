"""LazyTransfers: rows of the op log's table `transfers`, packed when they come. Rows of reads are completed later."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.log.compressed import INT64, TRANSFERS, PendingRows, Table, int64s

NOT_YET: Final = -1
"""The latency of a row that is to be completed."""
_LATENCY: Final = 8

pack_row: Final = Struct(f"{TRANSFERS.width}{INT64}").pack
"""The bytes of a row, from its integers. Raises `struct.error` for one that does not fit 64 bits."""


class ReadWay(NamedTuple):
    """The data that all reads of one size over one path share: the number of the memory in the log, and picoseconds.

    The request takes `request_ps`, and the head of the data `response_ps`. The bytes take `slowest_ps` on the narrowest
    link.
    """

    memory: int
    request_ps: int
    response_ps: int
    slowest_ps: int


class LazyTransfers(PendingRows):
    """The rows of `transfers`, of which the rows of reads are completed when they are taken out.

    A row begins with the time at which it is known. The row of a read may have the number of its way in place of the
    memory, its end in place of its arrival, and NOT_YET as its latency. In place of its wait on shared links it has the
    least time of its bytes, which may exceed that of its way: the bytes may share a link with the bytes of other
    requests of their transfer.

    `tail` takes bytes, because packing a row at once takes less time than keeping its integers. The columns that follow
    from the way and the end of a read are computed for many rows at once. With a log in memory, that is not on the path
    of the simulation.
    """

    def __init__(self) -> None:
        super().__init__(TRANSFERS)
        self._ways: list[ReadWay] = []

    def number_of(self, way: ReadWay) -> int:
        """The number of *way*, which is new."""
        self._ways.append(way)
        return len(self._ways) - 1

    def add(self, came_ps: int, row: tuple[int, ...]) -> None:
        """Takes *row*, which is complete at *came_ps*. Raises LogError for a time that does not fit 64 bits."""
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


def completed(rows: Table, ways: Sequence[ReadWay]) -> Table:
    """Returns *rows* with all columns that follow from ways and ends."""
    late = rows[:, _LATENCY] == NOT_YET
    if not late.any():
        return rows
    found = rows.copy()
    found[late] = _completed(rows[late], np.array(ways, np.int64))
    return found


def _completed(reads: Table, ways: Table) -> Table:
    came, op_id, way, t_sent, t_end, t_served, t_first, t_last, _, least_ps, behind_op = reads.T
    memory, request_ps, response_ps, slowest_ps = ways[way].T
    t_arrived = t_sent + request_ps
    bytes_end = np.maximum(t_first + np.maximum(slowest_ps, least_ps), t_last)
    shared_ps = np.maximum(t_end - response_ps - bytes_end, 0)
    behind_op = np.where(t_served > t_arrived, behind_op, -1)
    columns = came, op_id, memory, t_sent, t_arrived, t_served, t_first, t_last, response_ps, shared_ps, behind_op
    return np.stack(columns, axis=1)
