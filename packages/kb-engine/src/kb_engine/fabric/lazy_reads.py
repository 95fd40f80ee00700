"""Rows of the op log's table `transfers`, which are packed when they come. Rows of reads are completed later."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, Protocol

import numpy as np

from kb_dataexec.log.compressed import INT64, TRANSFERS, Table

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


class KeptTransfers(Protocol):
    """The table that rows go to. `tail` takes the bytes of a row.

    The row of a read may have the number of its way in place of the memory, its end in place of its arrival, and
    NOT_YET as its latency. In place of its wait on shared links it has the least time of its bytes, which may exceed
    that of its way: the bytes may share a link with the bytes of other requests of their transfer.
    """

    tail: list[bytes]

    def number_of(self, way: ReadWay) -> int:
        """The number of *way*, which is new."""

    def add(self, came_ps: int, row: tuple[int, ...]) -> None:
        """Takes *row*, which is complete at *came_ps*. Raises LogError for a time that does not fit 64 bits."""


def completed(rows: Table, ways: Sequence[ReadWay]) -> Table:
    """*rows* with all that follows from ways and ends."""
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
