"""ExpectedRows: the rows of commands that are known as a whole before the clock gets there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kb_dataexec.log.formulas.int64s import int64s
from kb_dataexec.log.formulas.row_formula import Table, joined
from kb_dataexec.log.formulas.row_formulas import RowFormulas
from kb_dataexec.log.formulas.row_source import RowSource


class ExpectedRows:
    """The rows of closed commands, by the first op of their command. Each row is written when its time is over."""

    def __init__(self) -> None:
        self._sources: dict[int, RowSource] = {}
        self._spans: dict[int, tuple[int, int, int]] = {}

    @property
    def first_ops(self) -> Iterable[int]:
        """The first ops of the commands of which rows are left."""
        return self._sources.keys()

    def clear(self) -> None:
        """Forget all rows."""
        self._sources.clear()
        self._spans.clear()

    def add(self, rows: RowFormulas, first_op: int, span_ps: tuple[int, int]) -> None:
        """*rows*, which count from *first_op* and from the begin of *span_ps*, will come in that time.

        Raises LogError for a time that does not fit 64 bits.
        """
        int64s(span_ps)
        self._sources[first_op] = RowSource(rows, first_op, span_ps[0])
        self._spans[first_op] = *span_ps, rows.records.n_rows

    def drop(self, first_op: int) -> None:
        """Forget the rows that are left of the command whose first op is *first_op*."""
        del self._sources[first_op], self._spans[first_op]

    def n_before(self, before_ps: int) -> int:
        """About how many records came before *before_ps*, of commands of which rows are left."""
        return sum(
            n_rows * min(max(before_ps - begin_ps, 0), end_ps - begin_ps) // max(1, end_ps - begin_ps)
            for begin_ps, end_ps, n_rows in self._spans.values()
        )

    def steps(self, others: RowSource, before_ps: int, most_rows: int) -> Iterator[tuple[int, list[Table]]]:
        """Take the rows before *before_ps*, those of *others*, too: about *most_rows* records at a time.

        Yields the time before which rows came, and these rows of each kind. Array of closed commands stand first.
        """
        until_ps = None
        while until_ps != before_ps:
            sources = [*self._sources.values(), others]
            share = max(1, most_rows // len(sources))
            times = [t_ps for t_ps in (source.time_of(share) for source in sources) if t_ps is not None]
            until_ps = min(before_ps, min(times, default=before_ps) + 1)
            taken = [source.take(until_ps) for source in sources]
            yield until_ps, [joined(tables, tables[0].shape[1]) for tables in zip(*taken, strict=True)]
        for first_op in [first_op for first_op, source in self._sources.items() if source.is_empty]:
            self._sources[first_op].forget()
            self.drop(first_op)
