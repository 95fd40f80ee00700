"""CommandRows: what the op log has of a command that is known as a whole, before the clock gets there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kb_engine.observe.group_texts import Ints

_TIMES = slice(1, 5)
_MEMORY, _BEHIND = 2, 10
_TRANSFER_TIMES = (0, 3, 4, 5, 6, 7)
"""Columns of a transfer behind the moment at which it is known, which is column 0: see the op log's `transfers`."""
_UNKNOWN = -1


class CommandRows(NamedTuple):
    """Rows whose ops count from the first op of their command, and whose times count from a moment.

    `records` has an op id and the four times of each stage, in the order of events. `waits` has, for each wait, the row
    in `records`, the reason and the picoseconds. `dispatches` and `transfers` are as those tables, with the moment at
    which a transfer was known in front. The memories of transfers are numbered as the command numbers them.
    """

    records: Ints
    waits: Ints
    dispatches: Ints
    transfers: Ints


class ExpectedRows:
    """The rows of a command that began at *t_ps* and whose first op is *first_op*. `n_taken` records were taken."""

    def __init__(self, rows: CommandRows, t_ps: int, first_op: int) -> None:
        self.rows = rows
        self.t_ps = t_ps
        self.first_op = first_op
        self.n_taken = 0

    def n_before(self, before_ps: int) -> int:
        """How many records before *before_ps* were not taken yet."""
        return int(np.searchsorted(self.rows.records[:, -1], before_ps - self.t_ps)) - self.n_taken

    @property
    def is_empty(self) -> bool:
        """Whether all records were taken."""
        return self.n_taken == len(self.rows.records)

    def take(self, before_ps: int) -> tuple[Ints, list[tuple[int, int, int]]]:
        """Records before *before_ps* that were not taken yet, and their waits, with op ids and times of the run."""
        start, end = self.n_taken, self.n_taken + self.n_before(before_ps)
        self.n_taken = end
        rows = self.rows
        records = rows.records[start:end] + _offsets(self.first_op, self.t_ps)
        first, last = np.searchsorted(rows.waits[:, 0], (start, end)) if len(rows.waits) else (0, 0)
        ops = rows.records[:, 0] + self.first_op
        waits = [(int(ops[row]), reason, ps) for row, reason, ps in rows.waits[first:last].tolist()]
        return records, waits


def _offsets(first_op: int, t_ps: int) -> Ints:
    return np.array([first_op, t_ps, t_ps, t_ps, t_ps], dtype=np.int64)


def relative(
    recorded: tuple[Ints, Ints, Ints, Ints], first_op: int, t_ps: int, index_of: Callable[[int], int]
) -> CommandRows:
    """The rows *recorded* of a command that began at *t_ps*: records, waits, dispatches and transfers of the run.

    *index_of* gives the command's number of a memory by the number of the memory's id in the log.
    """
    records, waits, dispatches, transfers = (each.copy() for each in recorded)
    records -= _offsets(first_op, t_ps)
    if len(waits):
        order = np.argsort(records[:, 0], kind="stable")
        at = order[np.searchsorted(records[:, 0], waits[:, 0] - first_op, sorter=order)]
        by_row = np.argsort(at, kind="stable")
        waits[:, 0] = at
        waits = waits[by_row]
    dispatches -= np.array([first_op, t_ps, t_ps], dtype=np.int64)
    _shift_transfers(transfers, -first_op, -t_ps)
    transfers[:, _MEMORY] = [index_of(number) for number in transfers[:, _MEMORY].tolist()]
    return CommandRows(records, waits, dispatches, transfers)


def dispatches_of(rows: CommandRows, first_op: int, t_ps: int) -> list[int]:
    """The rows of `dispatches`, with op ids and times of the run, one after the other."""
    flat: list[int] = (rows.dispatches + np.array([first_op, t_ps, t_ps], dtype=np.int64)).ravel().tolist()
    return flat


def transfers_of(rows: CommandRows, first_op: int, t_ps: int, number_of: Callable[[int], int]) -> list[int]:
    """As `dispatches_of`. *number_of* gives the number of a memory's id by the command's number of the memory."""
    transfers = rows.transfers.copy()
    _shift_transfers(transfers, first_op, t_ps)
    transfers[:, _MEMORY] = [number_of(index) for index in transfers[:, _MEMORY].tolist()]
    flat: list[int] = transfers.ravel().tolist()
    return flat


def _shift_transfers(transfers: Ints, ops: int, ps: int) -> None:
    """Move the op ids of *transfers* by *ops*, and their times by *ps*. A time or an op of -1 stays."""
    known = transfers[:, _BEHIND] != _UNKNOWN
    transfers[:, 1] += ops
    transfers[known, _BEHIND] += ops
    for column in _TRANSFER_TIMES:
        known = transfers[:, column] != _UNKNOWN
        transfers[known, column] += ps
