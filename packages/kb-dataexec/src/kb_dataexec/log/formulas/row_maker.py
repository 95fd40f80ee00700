"""RowMaker: makes the rows of an op log from formulas and commands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.command import LoggedCommand
from kb_dataexec.log.formulas.command_periods import CommandPeriods
from kb_dataexec.log.formulas.expected_rows import ExpectedRows
from kb_dataexec.log.formulas.further_rows import tile_tables
from kb_dataexec.log.formulas.record_tables import OwnersByPe, groups_of, operand_table, ops_table
from kb_dataexec.log.formulas.row_formula import Table
from kb_dataexec.log.formulas.row_formulas import DISPATCHES, RECORDS, TRANSFERS
from kb_dataexec.log.formulas.row_order import RowOrder
from kb_dataexec.log.formulas.row_source import RowSource
from kb_dataexec.log.left_out import LeftOut
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE

_MOST_RECORDS: Final = 1 << 18
"""Records whose times are made at once where they repeat others. Source: assumed; 45 MB with their waits."""

_first_op_of: Final = attrgetter("first_op")

Chunk: TypeAlias = tuple[Array, Array, dict[str, Array]]
"""The ops and the operands of a chunk of a log, and rows of further tables."""


class Places(NamedTuple):
    """What the rows of a chip's log need to know of the chip: its PEs in order, and the memories of each.

    `pe_numbers` numbers the PEs. `owners` has the owners of TCM and of registers, by PE id. A chunk has up to
    `chunk_records` records.
    """

    pe_numbers: Mapping[str, int]
    owners: OwnersByPe
    chunk_records: int


class RowMaker:
    """Makes the rows of an op log, whose texts *intern* numbers, from formulas."""

    def __init__(self, places: Places, intern: Callable[[str], int]) -> None:
        self._places = places
        self._intern = intern
        self.expected = ExpectedRows()

    def chunks(
        self,
        pending: RowSource,
        commands: Sequence[LoggedCommand],
        before_ps: int,
        ending: Mapping[str, Array],
        is_left_out: LeftOut | None = None,
    ) -> Iterator[Chunk]:
        """The rows that came before *before_ps*: those of *pending*, and those that are expected, in chunks.

        All belong to *commands*, which are in the order of their op ids. The last chunk has the rows *ending*, too.
        Other chunks are left out where *is_left_out* says so of the times at which their first and last record came.
        Raises LogError for a time that does not fit 64 bits.
        """
        size = self._places.chunk_records
        order = RowOrder(commands, self._places.pe_numbers, self.expected.first_ops)
        for until_ps, taken in self.expected.steps(pending, before_ps, max(_MOST_RECORDS, size)):
            records, waits, dispatches, transfers = taken
            if is_left_out is not None and until_ps != before_ps and len(records):
                came = records[:, RECORDS.came]
                if is_left_out(int(came.min()), int(came.max())):
                    continue
            ops = ops_table(order.sorted(records, RECORDS), waits)
            n_first = max(0, -(-len(ops) // size) - 1) * size
            for start in range(0, n_first, size):
                yield *self._filled(ops[start : start + size], commands), {}
            tables = tile_tables(order.sorted(dispatches, DISPATCHES), order.sorted(transfers, TRANSFERS))
            if until_ps == before_ps:
                tables |= ending
            if n_first < len(ops) or any(map(len, tables.values())):
                yield *self._filled(ops[n_first:], commands), tables

    def _filled(self, ops: Array, commands: Sequence[LoggedCommand]) -> tuple[Array, Array]:
        """*ops*, which have their times, with all that follows from their *commands*; and their operands."""
        if not len(ops):
            return ops, np.empty(0, OPERAND_DTYPE)
        op_ids: Table = ops["op_id"]
        first, last = [bisect_right(commands, op_id, key=_first_op_of) for op_id in (op_ids.min(), op_ids.max())]
        groups = groups_of(op_ids, commands[first - 1 : last], self._places.owners, self._intern)
        for group in groups:
            group.fill_ops(ops)
        return ops, operand_table(op_ids, groups)


def n_finished(commands: Sequence[LoggedCommand | CommandPeriods], before_ps: int) -> int:
    """How many of the first *commands* were done before *before_ps*: all their records are written then."""
    done = 0
    while done < len(commands) and 0 <= commands[done].t_done_ps < before_ps:
        done += 1
    return done
