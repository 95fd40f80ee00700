"""FormulaWriter: puts what a run leaves behind into chunks of formulas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final
from weakref import WeakKeyDictionary

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.chunk_plans import ChunkPlans
from kb_dataexec.log.formulas.chunk_tables import KINDS, Intern, pack_chunk, rows_of, with_columns
from kb_dataexec.log.formulas.command import LoggedCommand
from kb_dataexec.log.formulas.command_periods import CommandPeriods
from kb_dataexec.log.formulas.command_rows import CommandRows
from kb_dataexec.log.formulas.expected_rows import ExpectedRows
from kb_dataexec.log.formulas.row_formula import Repeat, RowFormula
from kb_dataexec.log.formulas.row_formulas import RowFormulas
from kb_dataexec.log.formulas.row_maker import Places

_PENDING: Final = -1
"""The number of the formula that no closed command has."""


class FormulaWriter:
    """Makes chunks of formulas for a `FormulaReader`, which knows what the chunks before said.

    *intern* gives the number of a text in the log. `FormulaReader` says what follows from a chunk.
    """

    def __init__(self, places: Places, intern: Intern) -> None:
        self._places = places
        self._intern = intern
        self._is_first = True
        self._done: set[int] = set()
        self._formulas: WeakKeyDictionary[RowFormula, int] = WeakKeyDictionary()
        self._n_formulas = 0
        self._closed: set[int] = set()

    def chunk(
        self,
        pending: RowFormulas,
        commands: Sequence[LoggedCommand | CommandPeriods],
        expected: ExpectedRows,
        before_ps: int,
        ending: Mapping[str, Array],
    ) -> bytes:
        """A chunk of the rows before *before_ps*: those of *pending* and *expected*, which belong to *commands*.

        *commands* are all that may have rows in this chunk or a later one. *ending* has the rows of `kernels` and
        `messages`. Raises LogError for a time that does not fit 64 bits.
        """
        tables = dict(ending)
        tables["chunk"] = rows_of("chunk", (before_ps, self._places.chunk_records))
        if self._is_first:
            tables["pes"] = rows_of("pes", chain.from_iterable(self._pes()))
        self._is_first = False
        plans = ChunkPlans(self._intern)
        self._put_commands(commands, tables, plans)
        self._put_rows(pending, expected, tables)
        return pack_chunk(tables | plans.tables, plans.forms)

    def _pes(self) -> Iterable[tuple[int, int, int]]:
        of_tcm, of_registers = self._places.owners
        for pe in self._places.pe_numbers:
            yield self._intern(pe), of_tcm.get(pe, -1), of_registers.get(pe, 0)

    def _put_commands(
        self, commands: Sequence[LoggedCommand | CommandPeriods], tables: dict[str, Array], plans: ChunkPlans
    ) -> None:
        """The commands that were not done before, with their places and times as far as these are known."""
        told = [command for command in commands if command.first_op not in self._done]
        self._done = {command.first_op for command in commands if command.t_done_ps >= 0}
        rows = CommandRows(self._intern, plans)
        rows.add(told)
        tables |= rows.tables

    def _put_rows(self, pending: RowFormulas, expected: ExpectedRows, tables: dict[str, Array]) -> None:
        """The formulas, and the closed commands that have one of them and of which rows are left."""
        parts, rows = list[int](), {kind: list[Array]() for kind in KINDS}
        _put_formulas(pending, _PENDING, parts, rows)
        closed, memories, left = list[int](), list[int](), set[int]()
        for first_op, each in expected.closed.items():
            left.add(first_op)
            if first_op in self._closed:
                closed += (first_op, 0, 0, -1, 0)
                continue
            number = self._formulas.get(each.rows.records)
            if number is None:
                number = self._formulas[each.rows.records] = self._n_formulas
                self._n_formulas += 1
                _put_formulas(each.rows, number, parts, rows)
            closed += (first_op, *each.span_ps, number, len(each.memories))
            memories += each.memories
        self._closed = left
        tables |= {kind: with_columns(kind, rows[kind]) for kind in KINDS}
        tables |= {
            name: rows_of(name, values)
            for name, values in (("parts", parts), ("closed", closed), ("memories", memories))
        }


def _put_formulas(formulas: RowFormulas, number: int, parts: list[int], rows: dict[str, list[Array]]) -> None:
    for kind, (name, formula) in enumerate(zip(KINDS, formulas, strict=True)):
        for part in formula.parts:
            if isinstance(part, Repeat):
                parts += (number, kind, -part.parts, part.n, part.ops, part.ps)
            else:
                parts += (number, kind, len(part), 0, 0, 0)
                rows[name].append(part)
