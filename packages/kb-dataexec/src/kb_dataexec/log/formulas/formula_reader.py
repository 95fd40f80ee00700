"""FormulaReader: makes the rows of a log from its chunks of formulas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kb_dataexec.log.formulas.further_rows import command_table
from kb_dataexec.log.formulas.row_formula import Table
from kb_dataexec.log.formulas.row_formulas import RowFormulas
from kb_dataexec.log.formulas.row_maker import Chunk, RowMaker, n_finished
from kb_dataexec.log.formulas.row_source import RowSource
from kb_dataexec.log.formulas.told_commands import ToldCommands, read_as_written
from kb_dataexec.log.left_out import LeftOut
from kb_messages import LogError

_MOST_LEFT: Final = 1 << 20
"""Rows that a chunk may leave for the next one. Source: assumed; 40 MB. A writer that splits its rows leaves none."""


class FormulaReader:
    """Makes rows from the chunks of a `FormulaWriter`, one chunk after the other. *strings* are those of the log.

    Rows that come at the time of the chunk or later belong to the next chunk.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._told = ToldCommands(strings)
        self._rest: list[Table] = []
        self._maker: RowMaker | None = None

    def chunks(self, data: bytes, where: str, is_left_out: LeftOut | None = None) -> Iterator[Chunk]:
        """The rows of the chunk *data*, about as many at a time as a chunk of the run had; *is_left_out* is that of
        `RowMaker.chunks`.

        Raises LogError, which begins with *where*, for bytes that no FormulaWriter made.
        """
        with read_as_written(where):
            yield from self._chunks(data, where, is_left_out)

    def _chunks(self, data: bytes, where: str, is_left_out: LeftOut | None) -> Iterator[Chunk]:
        told = self._told
        before_ps, pending, closed, tables = told.read(data, where, self._rest)
        assert told.places is not None, "a chunk was read"
        maker = self._maker = self._maker or RowMaker(told.places, told.intern)
        for first_op, rows in closed.items():
            if rows is not None:
                maker.expected.add(first_op, rows)
        for first_op in [each for each in maker.expected.first_ops if each not in closed]:
            maker.expected.drop(first_op)
        commands = [told.commands[first_op] for first_op in sorted(told.commands)]
        finished = commands[: n_finished(commands, before_ps)]
        ending = {name: tables[name] for name in ("kernels", "messages")}
        ending["commands"] = command_table(finished, told.intern)
        told.finish(finished)
        source = RowSource(RowFormulas(*[formula.in_order() for formula in pending]))
        yield from maker.chunks(source, commands, before_ps, ending, is_left_out)
        if source.n_left > _MOST_LEFT:
            raise ValueError(f"{source.n_left} rows that come later than the chunk")
        self._rest = source.rest()

    def check_end(self, where: str, ends_in_rows: bool) -> None:
        """Raise LogError, which begins with *where*, for rows that come later than the last chunk of a whole log.

        A log that *ends_in_rows* may have the rows of its closed commands among those.
        """
        n_left = sum(map(len, self._rest))
        n_closed = 0 if ends_in_rows or self._maker is None else len(self._maker.expected.closed)
        if n_left or n_closed:
            got = (
                f"formulas of rows that come after the last chunk ({n_left} of no command, and of {n_closed} commands)"
            )
            raise LogError(where, got, "a `before_ps` in the last chunk of formulas that is later than all rows")
