"""Takes compressed rows in the order of time, as far as the log is written.

RowSource takes the rows of a part of a run. ExpectedRows has a RowSource for each isolated command: all rows of such a
command are known before the clock reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.log.compressed.compressed_rows import CompressedRows, CompressedTables, Table, joined
from kb_dataexec.log.compressed.int_arrays import int64s

_CHUNK_ROWS: Final = 1 << 16
"""Rows that are made at a time, where there are many. Source: assumed; at most 6 MB."""


class RowStream:
    """Takes the rows of *rows* of one kind, *ops* ops and *ps* picoseconds later, in the order of time."""

    def __init__(self, rows: CompressedRows, ops: int, ps: int) -> None:
        self._rows, self._form = rows, rows.form
        self._step = rows.form.step(ops, ps) if ops or ps else None
        self._ps = ps
        self._chunks = rows.chunks(_CHUNK_ROWS)
        self._ahead = np.empty((0, rows.form.width), dtype=np.int64)
        self._n_taken = 0

    @property
    def n_left(self) -> int:
        """The number of rows that are not taken yet."""
        return self._rows.n_rows - self._n_taken

    def time_of(self, n: int) -> int | None:
        """The time at which row *n* of the remaining rows came; None without such a row."""
        while len(self._ahead) <= n:
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
            self._ahead = joined([each for each in (self._ahead, chunk) if len(each)], self._form.width)
        return int(self._ahead[n, self._form.came]) + self._ps

    def period_ps(self, since_ps: int, most_rows: int) -> int | None:
        """The longest period of at most *most_rows* rows that repeats at least once from *since_ps* on, in picoseconds.

        None without such a period.
        """
        at_ps = since_ps - self._ps
        periods = [
            (each.n_rows, each.ps)
            for each in self._rows.periods
            if each.begin_ps <= at_ps <= each.end_ps - each.ps and each.n_rows <= most_rows
        ]
        return max(periods)[1] if periods else None

    def take(self, before_ps: int) -> Table:
        """Takes the remaining rows that came before *before_ps*. Do not change them."""
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
    """Takes the rows of *tables*, *ops* ops and *ps* picoseconds later, in the order of time."""

    def __init__(self, tables: CompressedTables, ops: int = 0, ps: int = 0) -> None:
        self._tables = tables
        self._streams = [RowStream(rows, ops, ps) for rows in tables]
        self._records = self._streams[0]

    @property
    def is_empty(self) -> bool:
        """Whether all rows are taken."""
        return all(stream.time_of(0) is None for stream in self._streams)

    @property
    def n_left(self) -> int:
        """The number of rows of all kinds that are not taken yet."""
        return sum(stream.n_left for stream in self._streams)

    def time_of(self, n: int) -> int | None:
        """The time at which record *n* of the remaining records came; None without such a record."""
        return self._records.time_of(n)

    def period_ps(self, since_ps: int, most_records: int) -> int | None:
        """The longest period of at most *most_records* records that repeats at least once from *since_ps* on; else
        None.
        """
        return self._records.period_ps(since_ps, most_records)

    def take(self, before_ps: int) -> list[Table]:
        """Takes the remaining records, waits, dispatches and transfers that came before *before_ps*."""
        return [stream.take(before_ps) for stream in self._streams]

    def forget(self) -> None:
        """Frees the rows, because no more are taken here. Others that share them make them again."""
        for rows in self._tables:
            rows.forget()

    def rest(self) -> list[Table]:
        """Takes all remaining rows."""
        return self.take(np.iinfo(np.int64).max)


class IsolatedRows(NamedTuple):
    """The rows of an isolated command that runs in `span_ps`, (begin, end) in picoseconds.

    Ops and times in `rows` count from the first op and the begin of the command. Memory *m* of the rows has the number
    `memories[m]` in the log.
    """

    rows: CompressedTables
    memories: Sequence[int]
    span_ps: tuple[int, int]

    def source(self, first_op: int) -> RowSource:
        """A source of the rows of the command whose first op is *first_op*."""
        rows = self.rows.with_memories(np.array(self.memories, dtype=np.int64))
        return RowSource(rows, first_op, self.span_ps[0])

    def n_before(self, before_ps: int) -> int:
        """About how many records came before *before_ps*, if they are spread evenly over the time."""
        begin_ps, end_ps = self.span_ps
        over_ps = min(max(before_ps, begin_ps), end_ps) - begin_ps
        return self.rows.records.n_rows * over_ps // max(1, end_ps - begin_ps)


class ExpectedRows:
    """The rows of isolated commands, by the first op of the command. A row is written when its time has passed."""

    def __init__(self) -> None:
        self._isolated: dict[int, IsolatedRows] = {}
        self._sources: dict[int, RowSource] = {}

    @property
    def isolated(self) -> Mapping[int, IsolatedRows]:
        """The commands that have rows left, by first op."""
        return self._isolated

    @property
    def first_ops(self) -> Iterable[int]:
        """The first ops of the commands that have rows left."""
        return self._isolated.keys()

    def add(self, first_op: int, rows: IsolatedRows) -> None:
        """Adds the *rows* of the command whose first op is *first_op*.

        Raises LogError for a time that does not fit 64 bits.
        """
        int64s(rows.span_ps)
        self._isolated[first_op] = rows

    def drop(self, first_op: int) -> None:
        """Drops the remaining rows of the command whose first op is *first_op*."""
        del self._isolated[first_op]
        self._sources.pop(first_op, None)

    def drop_before(self, before_ps: int) -> None:
        """Drops the commands that ended before *before_ps*."""
        for first_op in [first_op for first_op, each in self._isolated.items() if each.span_ps[1] < before_ps]:
            self.drop(first_op)

    def n_between(self, since_ps: int, before_ps: int) -> int:
        """About how many records came at *since_ps* or later, and before *before_ps*."""
        return sum(each.n_before(before_ps) - each.n_before(since_ps) for each in self._isolated.values())

    def steps(self, others: RowSource, before_ps: int, most_rows: int) -> Iterator[tuple[int, list[Table]]]:
        """Takes all rows before *before_ps*, including the rows of *others*, about *most_rows* records at a time.

        Yields (time, tables): the rows of each kind that came before that time and were not yielded before. Rows of
        isolated commands stand first. While all rows repeat, each step has a whole number of periods.
        """
        for first_op, each in self._isolated.items():
            if first_op not in self._sources:
                self._sources[first_op] = each.source(first_op)
        until_ps = None
        while until_ps != before_ps:
            since_ps, sources = until_ps, [*self._sources.values(), others]
            share = max(1, most_rows // len(sources))
            times = [t_ps for t_ps in (source.time_of(share) for source in sources) if t_ps is not None]
            # One picosecond more, so that rows of one time are not cut apart.
            until_ps = min(before_ps, min(times, default=before_ps) + 1)
            if since_ps is not None:
                until_ps = _after_whole_periods(sources, since_ps, until_ps, share)
            taken = [source.take(until_ps) for source in sources]
            yield until_ps, [joined(tables, tables[0].shape[1]) for tables in zip(*taken, strict=True)]
        for first_op in [first_op for first_op, source in self._sources.items() if source.is_empty]:
            self._sources[first_op].forget()
            self.drop(first_op)


def _after_whole_periods(sources: Sequence[RowSource], since_ps: int, until_ps: int, share: int) -> int:
    """The last time up to *until_ps* that is whole periods of all *sources* with rows behind *since_ps*.

    *until_ps* itself where sources have different periods or none.
    """
    going = [source for source in sources if source.time_of(0) is not None]
    periods = {source.period_ps(since_ps, share) for source in going}
    period_ps = periods.pop() if len(periods) == 1 else None
    if period_ps is None or until_ps - since_ps < period_ps:
        return until_ps
    return until_ps - (until_ps - since_ps) % period_ps
