"""ExpectedRows: the rows of commands that are known as a whole before the clock gets there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kb_dataexec.log.formulas.checked_ints import int64s
from kb_dataexec.log.formulas.row_formula import Table, joined
from kb_dataexec.log.formulas.row_formulas import RowFormulas
from kb_dataexec.log.formulas.row_source import RowSource


class ClosedRows(NamedTuple):
    """The rows of a closed command that runs in the time `span_ps`.

    They count from the first op of the command and from its begin. Memory *m* of them has the number `memories[m]`.
    """

    rows: RowFormulas
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
        self._closed: dict[int, ClosedRows] = {}
        self._sources: dict[int, RowSource] = {}

    @property
    def closed(self) -> Mapping[int, ClosedRows]:
        """The commands of which rows are left, by their first ops."""
        return self._closed

    @property
    def first_ops(self) -> Iterable[int]:
        """The first ops of the commands of which rows are left."""
        return self._closed.keys()

    def add(self, first_op: int, rows: ClosedRows) -> None:
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
