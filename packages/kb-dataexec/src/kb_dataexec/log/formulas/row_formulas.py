"""RowFormulas: what a part of a run left behind, a formula for each kind of rows."""

from __future__ import annotations

from typing import Final, NamedTuple

from kb_dataexec.log.formulas.row_formula import RowForm, RowFormula, Table
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
