"""RowSource: the rows of a part of a run, taken in the order in which they came, as far as the log is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.log.compressed.compressed_rows import CompressedRows, CompressedTables, Table, joined
from kb_dataexec.log.compressed.int_arrays import int64s

_CHUNK_ROWS: Final = 1 << 16
"""Rows of a formula that are made at a time, where they are many. Source: assumed; at most 6 MB."""


class RowStream:
    """The rows of *formula*, *ops* ops and *ps* picoseconds later, of which those before some time are taken."""

    def __init__(self, formula: CompressedRows, ops: int, ps: int) -> None:
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

    def __init__(self, formulas: CompressedTables, ops: int = 0, ps: int = 0) -> None:
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


class IsolatedRows(NamedTuple):
    """The rows of a closed command that runs in the time `span_ps`.

    They count from the first op of the command and from its begin. Memory *m* of them has the number `memories[m]`.
    """

    rows: CompressedTables
    memories: Sequence[int]
    span_ps: tuple[int, int]

    def source(self, first_op: int) -> RowSource:
        """The rows of the command whose first op is *first_op*."""
        rows = self.rows.with_memories(np.array(self.memories, dtype=np.int64))
        return RowSource(rows, first_op, self.span_ps[0])

    def n_before(self, before_ps: int) -> int:
        """About how many records came before *before_ps*."""
        begin_ps, end_ps = self.span_ps
        over_ps = min(max(before_ps, begin_ps), end_ps) - begin_ps
        return self.rows.records.n_rows * over_ps // max(1, end_ps - begin_ps)


class ExpectedRows:
    """The rows of closed commands, by the first op of their command. Each row is written when its time is over."""

    def __init__(self) -> None:
        self._closed: dict[int, IsolatedRows] = {}
        self._sources: dict[int, RowSource] = {}

    @property
    def closed(self) -> Mapping[int, IsolatedRows]:
        """The commands of which rows are left, by their first ops."""
        return self._closed

    @property
    def first_ops(self) -> Iterable[int]:
        """The first ops of the commands of which rows are left."""
        return self._closed.keys()

    def add(self, first_op: int, rows: IsolatedRows) -> None:
        """*rows* of the command whose first op is *first_op* will come.

        Raises LogError for a time that does not fit 64 bits.
        """
        int64s(rows.span_ps)
        self._closed[first_op] = rows

    def drop(self, first_op: int) -> None:
        """Forget the rows that are left of the command whose first op is *first_op*."""
        del self._closed[first_op]
        self._sources.pop(first_op, None)

    def drop_before(self, before_ps: int) -> None:
        """Forget the commands that ended before *before_ps*."""
        for first_op in [first_op for first_op, each in self._closed.items() if each.span_ps[1] < before_ps]:
            self.drop(first_op)

    def n_between(self, since_ps: int, before_ps: int) -> int:
        """About how many records came from *since_ps* on and before *before_ps*."""
        return sum(each.n_before(before_ps) - each.n_before(since_ps) for each in self._closed.values())

    def steps(self, others: RowSource, before_ps: int, most_rows: int) -> Iterator[tuple[int, list[Table]]]:
        """Take the rows before *before_ps*, those of *others*, too: about *most_rows* records at a time.

        Yields the time before which rows came, and these rows of each kind. Rows of closed commands stand first. Where
        all rows repeat earlier ones, they come in whole periods.
        """
        for first_op, each in self._closed.items():
            if first_op not in self._sources:
                self._sources[first_op] = each.source(first_op)
        until_ps = None
        while until_ps != before_ps:
            since_ps, sources = until_ps, [*self._sources.values(), others]
            share = max(1, most_rows // len(sources))
            times = [t_ps for t_ps in (source.time_of(share) for source in sources) if t_ps is not None]
            until_ps = min(before_ps, min(times, default=before_ps) + 1)
            if since_ps is not None:
                until_ps = _after_whole_periods(sources, since_ps, until_ps, share)
            taken = [source.take(until_ps) for source in sources]
            yield until_ps, [joined(tables, tables[0].shape[1]) for tables in zip(*taken, strict=True)]
        for first_op in [first_op for first_op, source in self._sources.items() if source.is_empty]:
            self._sources[first_op].forget()
            self.drop(first_op)


def _after_whole_periods(sources: Sequence[RowSource], since_ps: int, until_ps: int, share: int) -> int:
    """*until_ps*, or so much less that whole periods of all *sources* that have rows lie between *since_ps* and it."""
    going = [source for source in sources if source.time_of(0) is not None]
    periods = {source.period_ps(since_ps, share) for source in going}
    period_ps = periods.pop() if len(periods) == 1 else None
    if period_ps is None or until_ps - since_ps < period_ps:
        return until_ps
    return until_ps - (until_ps - since_ps) % period_ps
