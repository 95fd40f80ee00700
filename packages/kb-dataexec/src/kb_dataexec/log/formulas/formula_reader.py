"""FormulaReader: makes the rows of a log from its chunks of formulas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb_dataexec.log.formulas.further_rows import command_table
from kb_dataexec.log.formulas.row_formula import Table
from kb_dataexec.log.formulas.row_formulas import RowFormulas
from kb_dataexec.log.formulas.row_maker import Chunk, RowMaker, n_finished
from kb_dataexec.log.formulas.row_source import RowSource
from kb_dataexec.log.formulas.told_commands import ToldCommands, read_as_written
from kb_dataexec.log.left_out import LeftOut


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
        for each in finished:
            del told.commands[each.first_op]
        source = RowSource(RowFormulas(*[formula.in_order() for formula in pending]))
        yield from maker.chunks(source, commands, before_ps, ending, is_left_out)
        self._rest = source.rest()
