"""The order of rows in the op log: by time, then by PE.

It follows from times and the chip alone. So it does not depend on the order in which the simulator came to know rows
of one picosecond.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.auxiliary_rows import tile_tables
from kb_dataexec.log.compressed.command import CommandLike
from kb_dataexec.log.compressed.command_group import Ints
from kb_dataexec.log.compressed.command_periods import CommandPeriods
from kb_dataexec.log.compressed.compressed_rows import DISPATCHES, RECORDS, TRANSFERS, RowForm, Table
from kb_dataexec.log.compressed.expected_rows import ExpectedRows, RowSource
from kb_dataexec.log.compressed.record_tables import OwnersByPe, groups_of, operand_table, ops_table
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE
from kb_dataexec.log.tables import LeftOut


class RowOrder:
    """The order of rows that belong to ops of *commands*, which are in the order of their op ids.

    *pe_numbers* numbers the PEs of the chip. *closed* are the first ops of commands that were alone on their PE: their
    rows came behind those of the commands before, whenever the simulator came to know them.
    """

    def __init__(
        self, commands: Sequence[CommandLike], pe_numbers: Mapping[str, int], closed: Iterable[int] = ()
    ) -> None:
        self._first_ops = np.array([command.first_op for command in commands], dtype=np.int64)
        self._pes = np.array([pe_numbers[command.submitted.pe] for command in commands], dtype=np.int64)
        alone = np.isin(self._first_ops, np.array([*closed], dtype=np.int64))
        self._spells = _spells(self._pes, alone) if alone.any() else None

    def sorted(self, rows: Table, form: RowForm) -> Table:
        """*rows* of *form* in the order in which they are written: by the time at which they came, then by PE.

        Rows of one PE and one picosecond stay as they are.
        """
        if not len(rows):
            return rows
        commands = np.searchsorted(self._first_ops, rows[:, form.ops[0]], side="right") - 1
        keys = (self._pes[commands], rows[:, form.came])
        return rows[np.lexsort(keys if self._spells is None else (self._spells[commands], *keys))]


def _spells(pes: Ints, alone: npt.NDArray[np.bool_]) -> Ints:
    """For each command, how many of those on its PE up to it were *alone*, plus a number of the PE."""
    by_pe = np.argsort(pes, kind="stable")
    spells = np.empty_like(pes)
    spells[by_pe] = np.cumsum(alone[by_pe])
    return spells


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
        commands: Sequence[CommandLike],
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

    def _filled(self, ops: Array, commands: Sequence[CommandLike]) -> tuple[Array, Array]:
        """*ops*, which have their times, with all that follows from their *commands*; and their operands."""
        if not len(ops):
            return ops, np.empty(0, OPERAND_DTYPE)
        op_ids: Table = ops["op_id"]
        first, last = [bisect_right(commands, op_id, key=_first_op_of) for op_id in (op_ids.min(), op_ids.max())]
        groups = groups_of(op_ids, commands[first - 1 : last], self._places.owners, self._intern)
        for group in groups:
            group.fill_ops(ops)
        return ops, operand_table(op_ids, groups)


def n_finished(commands: Sequence[CommandLike | CommandPeriods], before_ps: int) -> int:
    """How many of the first *commands* were done before *before_ps*: all their records are written then."""
    done = 0
    while done < len(commands) and 0 <= commands[done].t_done_ps < before_ps:
        done += 1
    return done
