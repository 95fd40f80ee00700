"""RowSource: the rows of a part of a run, taken in the order in which they came, as far as the log is written."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.log.formulas.row_formula import RowFormula, Table, joined
from kb_dataexec.log.formulas.row_formulas import RowFormulas

_CHUNK_ROWS: Final = 1 << 16
"""Rows of a formula that are made at a time, where they are many. Source: assumed; at most 6 MB."""


class RowStream:
    """The rows of *formula*, *ops* ops and *ps* picoseconds later, of which those before some time are taken."""

    def __init__(self, formula: RowFormula, ops: int, ps: int) -> None:
        self._formula, self._form = formula, formula.form
        self._step = formula.form.step(ops, ps) if ops or ps else None
        self._ps = ps
        self._chunks = formula.chunks(_CHUNK_ROWS)
        self._ahead = np.empty((0, formula.form.width), dtype=np.int64)
        self._n_taken = 0

    @property
    def n_left(self) -> int:
        """The number of rows that were not taken yet."""
        return self._formula.n_rows - self._n_taken

    def time_of(self, n: int) -> int | None:
        """When row number *n* of those that are left came; None where there is no such row."""
        while len(self._ahead) <= n:
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
            self._ahead = joined([each for each in (self._ahead, chunk) if len(each)], self._form.width)
        return int(self._ahead[n, self._form.came]) + self._ps

    def period_ps(self, since_ps: int, most_rows: int) -> int | None:
        """The longest period, of up to *most_rows* rows, in which rows repeat for at least one period from *since_ps*
        on; None where there is none."""
        at_ps = since_ps - self._ps
        periods = [
            (each.n_rows, each.ps)
            for each in self._formula.periods
            if each.begin_ps <= at_ps <= each.end_ps - each.ps and each.n_rows <= most_rows
        ]
        return max(periods)[1] if periods else None

    def take(self, before_ps: int) -> Table:
        """The rows that came before *before_ps* and were not taken yet. Do not change them."""
        parts = []
        while self.time_of(0) is not None:
            n = int(np.searchsorted(self._ahead[:, self._form.came], before_ps - self._ps))
            parts.append(self._ahead[:n])
            self._ahead = self._ahead[n:]
            if len(self._ahead):
                break
        taken = joined(parts, self._form.width)
        self._n_taken += len(taken)
        return taken if self._step is None else self._form.later(taken, self._step)


class RowSource:
    """The rows of *formulas*, *ops* ops and *ps* picoseconds later."""

    def __init__(self, formulas: RowFormulas, ops: int = 0, ps: int = 0) -> None:
        self._formulas = formulas
        self._streams = [RowStream(formula, ops, ps) for formula in formulas]
        self._records = self._streams[0]

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken."""
        return all(stream.time_of(0) is None for stream in self._streams)

    @property
    def n_left(self) -> int:
        """The number of rows of all kinds that were not taken yet."""
        return sum(stream.n_left for stream in self._streams)

    def time_of(self, n: int) -> int | None:
        """When record number *n* of those that are left came; None where there is no such record."""
        return self._records.time_of(n)

    def period_ps(self, since_ps: int, most_records: int) -> int | None:
        """The longest period of records, as `RowStream.period_ps` says."""
        return self._records.period_ps(since_ps, most_records)

    def take(self, before_ps: int) -> list[Table]:
        """The records, waits, dispatches and transfers that came before *before_ps* and were not taken yet."""
        return [stream.take(before_ps) for stream in self._streams]

    def forget(self) -> None:
        """Nothing more is taken: make the rows anew where others ask for them."""
        for formula in self._formulas:
            formula.forget()

    def rest(self) -> list[Table]:
        """All that is left."""
        return self.take(np.iinfo(np.int64).max)
