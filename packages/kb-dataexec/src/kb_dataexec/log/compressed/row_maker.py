"""RowMaker: makes the rows of an op log from compressed rows and commands, in the order of the log.

Rows are ordered by time, then by PE. So their order does not depend on the order in which the simulator came to know
rows of one picosecond.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.command import CommandLike
from kb_dataexec.log.compressed.command_periods import CommandPeriods
from kb_dataexec.log.compressed.compressed_rows import DISPATCHES, RECORDS, TRANSFERS, RowForm, Table
from kb_dataexec.log.compressed.expected_rows import ExpectedRows, RowSource
from kb_dataexec.log.compressed.int_arrays import Ints
from kb_dataexec.log.compressed.record_tables import OwnersByPe, groups_of, operand_table, ops_table, tile_tables
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE
from kb_dataexec.log.tables import LeftOut


class RowOrder:
    """Sorts rows that belong to ops of *commands*, which are in the order of their op ids.

    *pe_numbers* has the number of each PE of the chip. *isolated* are the first ops of isolated commands. Their rows
    come after the rows of the commands before them on the PE, whenever the simulator came to know them.
    """

    def __init__(
        self, commands: Sequence[CommandLike], pe_numbers: Mapping[str, int], isolated: Iterable[int] = ()
    ) -> None:
        self._first_ops = np.array([command.first_op for command in commands], dtype=np.int64)
        self._pes = np.array([pe_numbers[command.submitted.pe] for command in commands], dtype=np.int64)
        alone = np.isin(self._first_ops, np.array([*isolated], dtype=np.int64))
        self._spells = _spells(self._pes, alone) if alone.any() else None

    def sorted(self, rows: Table, form: RowForm) -> Table:
        """Returns *rows* of *form* by the time at which they came, then by PE.

        Rows of one PE and one picosecond keep their order.
        """
        if not len(rows):
            return rows
        commands = np.searchsorted(self._first_ops, rows[:, form.ops[0]], side="right") - 1
        keys = (self._pes[commands], rows[:, form.came])
        return rows[np.lexsort(keys if self._spells is None else (self._spells[commands], *keys))]


def _spells(pes: Ints, alone: npt.NDArray[np.bool_]) -> Ints:
    """For each command, a number that grows on its PE with each command that was *alone* (isolated)."""
    by_pe = np.argsort(pes, kind="stable")
    spells = np.empty_like(pes)
    spells[by_pe] = np.cumsum(alone[by_pe])
    return spells


_MOST_RECORDS: Final = 1 << 18
"""Repeated records whose times are made at a time. Source: assumed; 45 MB with their waits."""

_first_op_of: Final = attrgetter("first_op")

Chunk: TypeAlias = tuple[Array, Array, dict[str, Array]]
"""The ops and the operands of a chunk of a log, and rows of auxiliary tables by name."""


class Places(NamedTuple):
    """The PEs of a chip and their memories.

    `pe_numbers` has the number of each PE by id, in the order of the chip. `owners` has the owners of TCM and of
    registers, by PE id. A chunk of the log has at most `chunk_records` records.
    """

    pe_numbers: Mapping[str, int]
    owners: OwnersByPe
    chunk_records: int


class RowMaker:
    """Makes rows of an op log from compressed rows. *intern* returns the number of a string of the log."""

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
        """Yields chunks of all rows of *pending* and `expected` that came before *before_ps* picoseconds.

        All rows belong to *commands*, which are in the order of their op ids. The last chunk also has the rows
        *ending*. Another chunk is left out if *is_left_out* returns True for the times of its first and its last
        record. Raises LogError for a time that needs more than 64 bits.
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
            # The rows of all chunks but the last one, which is not empty.
            n_first = max(0, -(-len(ops) // size) - 1) * size
            for start in range(0, n_first, size):
                yield *self._filled(ops[start : start + size], commands), {}
            tables = tile_tables(order.sorted(dispatches, DISPATCHES), order.sorted(transfers, TRANSFERS))
            if until_ps == before_ps:
                tables |= ending
            if n_first < len(ops) or any(map(len, tables.values())):
                yield *self._filled(ops[n_first:], commands), tables

    def _filled(self, ops: Array, commands: Sequence[CommandLike]) -> tuple[Array, Array]:
        """Fills the columns of *ops* that follow from *commands*. Returns *ops* and their operands."""
        if not len(ops):
            return ops, np.empty(0, OPERAND_DTYPE)
        op_ids: Table = ops["op_id"]
        first, last = [bisect_right(commands, op_id, key=_first_op_of) for op_id in (op_ids.min(), op_ids.max())]
        groups = groups_of(op_ids, commands[first - 1 : last], self._places.owners, self._intern)
        for group in groups:
            group.fill_ops(ops)
        return ops, operand_table(op_ids, groups)


def n_finished(commands: Sequence[CommandLike | CommandPeriods], before_ps: int) -> int:
    """Counts the first *commands* that were done before *before_ps*: all their records are written then."""
    done = 0
    while done < len(commands) and 0 <= commands[done].t_done_ps < before_ps:
        done += 1
    return done
