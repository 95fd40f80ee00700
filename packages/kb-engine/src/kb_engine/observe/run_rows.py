"""RunRows: what a run leaves behind row by row, which makes the op log together with the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kb_engine.observe.repeated import Mark, RepeatedRows
from kb_engine.observe.row_formula import RowForm, RowFormula, Table
from kb_messages import LOG_TABLES

FIELDS: Final = 5
"""Integers that a stage service leaves behind: an op id, and the times at which the stage was ready, started, ended and
left its block."""
WAIT_FIELDS: Final = 4
"""Integers of a wait: an op id, a WaitReason, its picoseconds, and when the stage left its block."""
_N_TRANSFER: Final = 1 + len(LOG_TABLES["transfers"].columns)
"""Numbers of a row. A row of `transfers` has the moment at which it is known in front."""
MEMORY: Final = 2
"""The column of a transfer that names its memory."""

RECORDS: Final = RowForm(FIELDS, ops=(0,), times=(1, 2, 3, 4), came=4)
WAITS: Final = RowForm(WAIT_FIELDS, ops=(0,), times=(3,), came=3)
DISPATCHES: Final = RowForm(len(LOG_TABLES["dispatches"].columns), ops=(0,), times=(1, 2), came=2)
TRANSFERS: Final = RowForm(_N_TRANSFER, ops=(1, 10), times=(0, 3, 4, 5, 6, 7), came=0, absent=-1)


class RowsMark(NamedTuple):
    """How far the rows of a run had come."""

    records: Mark
    waits: Mark
    dispatches: Mark
    transfers: Mark


class RowFormulas(NamedTuple):
    """The rows of a part of a run: a formula for each kind."""

    records: RowFormula
    waits: RowFormula
    dispatches: RowFormula
    transfers: RowFormula

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that came."""
        return sum(formula.nbytes for formula in self)

    def later(self, ops: int, ps: int) -> RowFormulas:
        """The same rows, *ops* ops and *ps* picoseconds later."""
        moved = []
        for formula in self:
            form, step = formula.form, formula.form.step(ops, ps)
            moved.append(formula.mapped(lambda rows, form=form, step=step: form.later(rows, step)))  # type: ignore[misc]
        return RowFormulas(*moved)

    def with_memories(self, number_of: Table) -> RowFormulas:
        """The same rows, where memory *m* is number `number_of[m]`."""

        def renumbered(rows: Table) -> Table:
            found = rows.copy()
            found[:, MEMORY] = number_of[rows[:, MEMORY]]
            return found

        return self._replace(transfers=self.transfers.mapped(renumbered))


class RunRows:
    """The records, waits, dispatches and transfers of a run that are not in the log yet."""

    def __init__(self) -> None:
        self.records = RepeatedRows(RECORDS)
        self.waits = RepeatedRows(WAITS)
        self.dispatches = RepeatedRows(DISPATCHES)
        self.transfers = RepeatedRows(TRANSFERS)
        self._all = self.records, self.waits, self.dispatches, self.transfers

    @property
    def has_repeats(self) -> bool:
        """Whether rows repeat others."""
        return self.records.has_repeats

    def clear(self) -> None:
        """Drop all rows."""
        for rows in self._all:
            rows.clear()

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

    def cut(self, mark: RowsMark | None = None) -> RowFormulas:
        """Take out all rows since *mark*. Raises LogError for a time that does not fit 64 bits."""
        return RowFormulas(*[rows.cut(since) for rows, since in zip(self._all, mark or [(0, 0)] * 4, strict=True)])

    def put_back(self, tables: Sequence[Table]) -> None:
        """Keep *tables*, rows of each kind, which were cut and came last."""
        for rows, table in zip(self._all, tables, strict=True):
            rows.put_back(table)

    def drop_before(self, mark: RowsMark, t_ps: int) -> None:
        """Of the rows since *mark*, forget those that came before *t_ps*."""
        self.put_back([each.rows[each.rows[:, each.form.came] >= t_ps] for each in self.cut(mark)])
