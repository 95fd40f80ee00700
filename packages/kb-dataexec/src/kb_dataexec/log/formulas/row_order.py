"""The order of rows in the op log: by time, then by PE.

It follows from times and the chip alone. So it does not depend on the order in which the simulator came to know rows
of one picosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kb_dataexec.log.formulas.command import LoggedCommand
from kb_dataexec.log.formulas.group_texts import Ints
from kb_dataexec.log.formulas.row_formula import RowForm, Table


class RowOrder:
    """The order of rows that belong to ops of *commands*, which are in the order of their op ids.

    *pe_numbers* numbers the PEs of the chip. *closed* are the first ops of commands that were alone on their PE: their
    rows came behind those of the commands before, whenever the simulator came to know them.
    """

    def __init__(
        self, commands: Sequence[LoggedCommand], pe_numbers: Mapping[str, int], closed: Iterable[int] = ()
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
