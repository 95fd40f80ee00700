"""RunRows: what a run leaves behind row by row, which makes the op log together with the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_dataexec.log.compressed import DISPATCHES, RECORDS, WAITS, CompressedTables, Table
from kb_engine.observe.late_transfers import LateTransfers
from kb_engine.observe.repeated import Mark, RepeatedRows


class RowsMark(NamedTuple):
    """How far the rows of a run had come."""

    records: Mark
    waits: Mark
    dispatches: Mark
    transfers: Mark


class RunRows:
    """The records, waits, dispatches and transfers of a run that are not in the log yet."""

    def __init__(self) -> None:
        self.records = RepeatedRows(RECORDS)
        self.waits = RepeatedRows(WAITS)
        self.dispatches = RepeatedRows(DISPATCHES)
        self.transfers = LateTransfers()
        self._all = self.records, self.waits, self.dispatches, self.transfers

    @property
    def has_repeats(self) -> bool:
        """Whether rows repeat others."""
        return self.records.has_repeats

    def clear(self) -> None:
        """Drop all rows."""
        for rows in self._all:
            rows.clear()

    def settle(self) -> None:
        """Keep all rows in as little room as they need."""
        for rows in self._all:
            rows.settle()

    def mark(self) -> RowsMark:
        """How far the rows have come."""
        return RowsMark(*[rows.mark() for rows in self._all])

    def since(self, mark: RowsMark, ops: int, ps: int) -> list[Table]:
        """All rows since *mark*, among which nothing was repeated, counted from op *ops* and from *ps* on."""
        found = []
        for rows, since in zip(self._all, mark, strict=True):
            found.append(rows.form.later(rows.since(since), rows.form.step(-ops, -ps)))
        return found

    def repeat(self, mark: RowsMark, n: int, ops: int, ps: int) -> None:
        """All rows since *mark*, *n* times more, each time later by *ops* and *ps*."""
        for rows, since in zip(self._all, mark, strict=True):
            rows.repeat(since, n, ops, ps)

    def cut(self, mark: RowsMark | None = None) -> CompressedTables:
        """Take out all rows since *mark*. Raises LogError for a time that does not fit 64 bits."""
        return CompressedTables(*[rows.cut(since) for rows, since in zip(self._all, mark or [(0, 0)] * 4, strict=True)])

    def put_back(self, tables: Sequence[Table]) -> None:
        """Keep *tables*, rows of each kind, which were cut and came last."""
        for rows, table in zip(self._all, tables, strict=True):
            rows.put_back(table)

    def drop_before(self, mark: RowsMark, t_ps: int) -> None:
        """Of the rows since *mark*, forget those that came before *t_ps*."""
        self.put_back([each.rows[each.rows[:, each.form.came] >= t_ps] for each in self.cut(mark)])
