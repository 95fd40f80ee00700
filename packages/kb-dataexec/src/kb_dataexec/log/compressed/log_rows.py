"""LogRows: all rows of a run that are not in its log yet, from the first append to the chunk that is written.

Design: docs/design/compressed-log.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.chunk_format import ENDING
from kb_dataexec.log.compressed.chunk_writer import CompressedWriter
from kb_dataexec.log.compressed.command import CommandLike
from kb_dataexec.log.compressed.command_group import intern_blocks, intern_texts
from kb_dataexec.log.compressed.command_periods import CommandPeriods, each_command
from kb_dataexec.log.compressed.compressed_rows import (
    DISPATCHES,
    RECORDS,
    WAITS,
    CompressedTables,
    Mark,
    PendingRows,
    Table,
)
from kb_dataexec.log.compressed.expected_rows import IsolatedRows, RowSource
from kb_dataexec.log.compressed.record_tables import command_table, int_columns, table
from kb_dataexec.log.compressed.row_maker import Places, RowMaker, n_finished
from kb_messages import LOG_TABLES, OPTIONAL_TABLES, PipelinePlan

if TYPE_CHECKING:
    from kb_dataexec.log.writer import LogWriter

_MOST_TEXTS: Final = 1 << 12
"""Plans whose texts are known to be in the log. Texts of other plans are entered anew."""

OnChunk: TypeAlias = Callable[[Array, Sequence[str]], None]
"""Takes the ops of a chunk, and the strings of the log."""

C = TypeVar("C", bound=CommandLike)


class LogMark(NamedTuple):
    """An end of the rows of each kind, after a number of flushes."""

    ends: tuple[Mark, ...]
    flushes: int


class LogRows(Generic[C]):
    """The pending rows of a log: rows to append, repetitions, rows that isolated commands will have, and commands.

    `records`, `waits` and `dispatches` take rows at their `tail`, as *transfers* does; `ended` takes the rows of the
    tables in ENDING. `flush` writes rows and compressed rows to `writer` in the order of `RowOrder`. If *on_chunk* is
    given, all rows are made, and it is called with the rows of each chunk.
    """

    def __init__(self, transfers: PendingRows, on_chunk: OnChunk | None = None) -> None:
        self.records, self.waits, self.dispatches = map(PendingRows, (RECORDS, WAITS, DISPATCHES))
        self.ended: dict[str, list[tuple[Sequence[str], Sequence[int]]]] = {name: [] for name in ENDING}
        self._all = self.records, self.waits, self.dispatches, transfers
        self._on_chunk = on_chunk
        self._commands: list[C | CommandPeriods] = []
        self._texts: dict[tuple[int, str], PipelinePlan] = {}
        self._origins: dict[tuple[int, str], PipelinePlan] = {}
        self._flushes = self._written_ps = 0
        self._n_taken = self._n_expected = 0

    def begin(self, writer: LogWriter, places: Places) -> None:
        """Begins the log of *writer*, about a chip with *places*. All rows of the log before are dropped."""
        self.writer, self._places = writer, places
        for kept in (*self._all, self._commands, self._texts, self._origins):
            kept.clear()
        for rows in self.ended.values():
            rows.clear()
        self._flushes += 1
        self._n_taken = self._n_expected = 0
        self._maker = RowMaker(places, writer.intern)
        self._expected = self._maker.expected
        self._compressed = CompressedWriter(places, writer.intern)
        self._needs_rows = False

    @property
    def n_rows(self) -> int:
        """The number of records so far, whether written, pending or expected."""
        return self._n_taken + self._n_expected + self.records.n_rows

    @property
    def has_compressed(self) -> bool:
        """Whether rows repeat others or belong to isolated commands."""
        return self.records.has_repeats or bool(self._expected.isolated)

    @property
    def takes_compressed(self) -> bool:
        """Whether repeated rows and the rows of isolated commands may be compressed in the log."""
        return self.writer.takes_compressed and self._on_chunk is None and not self._needs_rows

    def n_due(self, before_ps: int) -> int:
        """About how many records of isolated commands have come before *before_ps* since the last flush."""
        return self._expected.n_between(self._written_ps, before_ps)

    def add_command(self, command: C) -> None:
        """Adds *command*, to which rows will refer, and enters its texts into the log."""
        self._commands.append(command)
        plan, line = command.shared_plan, command.submitted.line
        if (id(plan), line) not in self._texts:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
                self._origins.clear()
            self._texts[id(plan), line] = plan
            origin = plan.origin
            if (id(origin), line) in self._origins:
                intern_blocks(plan, self.writer.intern)
            else:
                self._origins[id(origin), line] = origin
                intern_texts(plan, line, self.writer.intern)

    @property
    def commands(self) -> list[C]:
        """The commands whose records are not all written, in the order of their ops, without CommandPeriods."""
        return [each for each in self._commands if not isinstance(each, CommandPeriods)]

    @property
    def n_commands(self) -> int:
        """The number of commands and CommandPeriods whose records are not all written."""
        return len(self._commands)

    def replace_commands(self, since: int, commands: Sequence[C | CommandPeriods]) -> None:
        """Replaces the commands from number *since* on by *commands*, whose texts are in the log already."""
        self._commands[since:] = commands

    def settle(self) -> None:
        """Packs all rows into as little memory as they need."""
        for rows in self._all:
            rows.settle()

    def mark(self) -> LogMark:
        """The present end of the rows. `repeat` and `cut` take the rows after a mark."""
        return LogMark(tuple([rows.mark() for rows in self._all]), self._flushes)

    def can_repeat(self, mark: LogMark, n_ops: int) -> bool:
        """Whether the records since *mark* may be repeated: they are the records of *n_ops* ops, each once.

        Records may be missing: very many records are written although they were to be kept, and records of isolated
        commands are kept elsewhere. A repetition without them would lose rows of the log.
        """
        return mark.flushes == self._flushes and self.records.n_since(mark.ends[0]) == n_ops

    def repeat(self, mark: LogMark, n: int, ps: int, ops: int) -> None:
        """Appends the rows since *mark* *n* times more, each time *ps* picoseconds and *ops* ops later."""
        assert self.can_repeat(mark, ops), "a row for each op of the period"
        for rows, end in zip(self._all, mark.ends, strict=True):
            rows.repeat(end, n, ops, ps)

    def cut(self, mark: LogMark, first_op: int, t_ps: int, memories: Sequence[str]) -> CompressedTables:
        """Takes out the rows since *mark*, all of one command, which began at *t_ps* and uses *memories*.

        Their ops count from *first_op*, their times from *t_ps*, and memories have their numbers in *memories*.
        """
        numbers = self._numbers(memories)
        index_of = np.full(max(numbers, default=0) + 1, -1, dtype=np.int64)
        index_of[numbers] = range(len(numbers))
        return self._taken(mark.ends).later(-first_op, -t_ps).with_memories(index_of)

    def expect(self, first_op: int, rows: CompressedTables, span_ps: tuple[int, int], memories: Sequence[str]) -> None:
        """Expects *rows*, which `cut` made, of an isolated command that runs in the time *span_ps*.

        Its ops begin with *first_op*, and it uses *memories*. A row is written when its time is over. Raises LogError
        for a time that does not fit 64 bits.
        """
        self._n_expected += rows.records.n_rows
        self._expected.add(first_op, IsolatedRows(rows, self._numbers(memories), span_ps))

    def withdraw(self, first_op: int) -> None:
        """Drops the expected rows of the command whose first op is *first_op*, as far as they are not written."""
        self._n_expected -= self._expected.isolated[first_op].rows.records.n_rows
        self._expected.drop(first_op)

    def drop_written(self, mark: LogMark) -> None:
        """Drops the rows since *mark* that were expected before it and are written already."""
        n_records = self.records.n_rows
        for rows, end in zip(self._all, mark.ends, strict=True):
            rows.drop_before(end, self._written_ps)
        self._n_expected += n_records - self.records.n_rows

    def flush(self, before_ps: int) -> None:
        """Writes the rows that came before *before_ps*, and rows of commands that are done and of ended programs."""
        self._flushes += 1
        self._written_ps = before_ps
        ending, n_records = self._ended(), self.records.n_rows
        pending = CompressedTables(*[rows.in_order() for rows in self._taken()])
        commands, n_done = [*self._commands], n_finished(self._commands, before_ps)
        del self._commands[:n_done]
        if self.takes_compressed:  # later rows stay here, because rows may follow instead of compressed
            halves = [rows.split(before_ps) for rows in pending]
            self._put_back([later for _, later in halves], n_records)
            self._write_compressed(CompressedTables(*[before for before, _ in halves]), commands, before_ps, ending)
            return
        source = RowSource(pending)
        finished = [*each_command(commands[:n_done])]
        ending |= {"commands": command_table(finished, self.writer.intern)}
        for chunk in self._maker.chunks(source, [*finished, *each_command(commands[n_done:])], before_ps, ending):
            self._write(*chunk)
        self._put_back(source.rest(), n_records)

    def flush_rows(self, before_ps: int) -> None:
        """Writes as `flush` does. From then on all records become rows, because a reader follows the run."""
        self.flush(before_ps)
        self._needs_rows = True

    def append(self, ops: Array, operands: Array) -> None:
        """Writes rows that no command has, behind all rows that were flushed."""
        self._write(ops, operands)
        self._n_taken += len(ops)

    def _numbers(self, texts: Sequence[str]) -> list[int]:
        return [self.writer.intern(text) for text in texts]

    def _taken(self, ends: Sequence[Mark] = ((0, 0),) * 4) -> CompressedTables:
        """Takes out all rows since *ends*. Raises LogError for a time that does not fit 64 bits."""
        return CompressedTables(*[rows.cut(end) for rows, end in zip(self._all, ends, strict=True)])

    def _put_back(self, tables: Sequence[Table], n_records: int) -> None:
        """Keeps *tables*, the last rows of each kind that were taken out. Counts those of *n_records* that are not."""
        for rows, kept in zip(self._all, tables, strict=True):
            rows.put_back(kept)
        self._n_taken += n_records - self.records.n_rows

    def _ended(self) -> dict[str, Array]:
        """The rows of the tables in ENDING since the last call, by table. Empty OPTIONAL_TABLES are left out.

        Raises LogError for a time that does not fit 64 bits.
        """
        found = {
            name: self._table_of(name, [*rows])
            for name, rows in self.ended.items()
            if rows or name not in OPTIONAL_TABLES
        }
        for rows in self.ended.values():
            rows.clear()
        return found

    def _table_of(self, name: str, rows: Sequence[tuple[Sequence[str], Sequence[int]]]) -> Array:
        """The table *name* of *rows*: the texts and the numbers of each row, both in the order of the columns."""
        schema = LOG_TABLES[name]
        n_texts = len(schema.texts)
        texts = iter(int_columns((self._numbers(each) for each, _ in rows), n_texts) if n_texts else ())
        numbers = iter(int_columns((each for _, each in rows), len(schema.columns) - n_texts))
        return table(name, [next(texts if column in schema.texts else numbers) for column, _ in schema.columns])

    def _write_compressed(
        self,
        pending: CompressedTables,
        commands: Sequence[C | CommandPeriods],
        before_ps: int,
        ending: Mapping[str, Array],
    ) -> None:
        """Writes a compressed chunk of *pending*, *commands* and expected rows, unless it would be empty."""
        ends = n_finished(commands, before_ps) or any(map(len, ending.values()))
        if ends or self._expected.isolated or any(rows.n_rows for rows in pending):
            chunk = self._compressed.chunk(pending, commands, self._expected, before_ps, ending)
            self.writer.append_compressed(chunk)
            self._expected.drop_before(before_ps)

    def _write(self, ops: Array, operands: Array, tables: dict[str, Array] | None = None) -> None:
        self.writer.append(ops, operands, tables)
        if self._on_chunk is not None and len(ops):
            self._on_chunk(ops, self.writer.strings)
