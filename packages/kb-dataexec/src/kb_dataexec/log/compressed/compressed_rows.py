"""CompressedRows: rows of integers, stored as literal rows and repetitions of the rows before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_messages import LOG_TABLES

Table: TypeAlias = npt.NDArray[np.int64]
"""Rows of integers."""

_SHARED_ROWS: Final = 1 << 18
"""Rows that are made once, and kept with their formula. Source: assumed; at most 23 MB."""


_NEVER: Final = int(np.iinfo(np.int64).min)


class RowForm(NamedTuple):
    """The columns of some rows: how many, which are op ids, which are times, and which time says when a row came.

    Numbers equal to *absent* are neither an op nor a time.
    """

    width: int
    ops: tuple[int, ...]
    times: tuple[int, ...]
    came: int
    absent: int | None = None

    def step(self, ops: int, ps: int) -> Table:
        """What is added to a row that comes *ps* picoseconds and *ops* ops later."""
        step = np.zeros(self.width, dtype=np.int64)
        step[list(self.ops)], step[list(self.times)] = ops, ps
        return step

    def later(self, rows: Table, step: Table) -> Table:
        """*rows* later by *step*, which has a step of each column, or of each column of each row."""
        found = rows + step
        return found if self.absent is None else np.where(rows == self.absent, rows, found)


class Repeat(NamedTuple):
    """The rows of the *parts* before this one, *n* times more, each time later by *ps* and *ops*."""

    parts: int
    n: int
    ops: int
    ps: int


Part: TypeAlias = Table | Repeat


class RowPeriod(NamedTuple):
    """A time in which rows repeat those *ps* picoseconds before: *n_rows* rows, which come from *begin_ps* on for the
    first time, and until *end_ps* for the last time."""

    ps: int
    n_rows: int
    begin_ps: int
    end_ps: int


class CompressedRows:
    """Rows of one *form*: *parts* are rows as they came, and repeats of the parts before them."""

    def __init__(self, form: RowForm, parts: Sequence[Part]) -> None:
        self.form = form
        self.parts = parts

    @cached_property
    def _sizes(self) -> list[int]:
        """The rows of each part."""
        sizes: list[int] = []
        for part in self.parts:
            sizes.append(part.n * sum(sizes[-part.parts :]) if isinstance(part, Repeat) else len(part))
        return sizes

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(self._sizes)

    @property
    def last_ps(self) -> int:
        """When the last row came, or a time before all times where there is none."""
        lasts: list[int] = []
        for part in self.parts:
            if isinstance(part, Repeat):
                lasts.append(max(lasts[-part.parts :]) + part.n * max(0, part.ps))
            else:
                lasts.append(int(part[:, self.form.came].max()) if len(part) else _NEVER)
        return max(lasts, default=_NEVER)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that came."""
        return sum(part.nbytes for part in self.parts if not isinstance(part, Repeat))

    @cached_property
    def rows(self) -> Table:
        """All rows. Do not change them."""
        return joined(list(self._made(None)), self.form.width)

    def in_order(self) -> CompressedRows:
        """The rows in the order of the times at which they came, which they have where nothing was run again."""
        if self.is_in_order:
            return self
        return CompressedRows(self.form, [self.rows[np.argsort(self.rows[:, self.form.came], kind="stable")]])

    @property
    def is_in_order(self) -> bool:
        """Whether no row came before the row before it. No row is made for the answer."""
        came, last, firsts = self.form.came, _NEVER, list[int]()
        for part in self.parts:
            if isinstance(part, Repeat):
                begins_ps, ends_ps = firsts[-part.parts] + part.ps, last + part.n * part.ps
                is_ascending = part.ps >= 0
            else:
                times = part[:, came]
                begins_ps, ends_ps, is_ascending = int(times[0]), int(times[-1]), bool((times[1:] >= times[:-1]).all())
            if begins_ps < last or not is_ascending:
                return False
            firsts.append(begins_ps)
            last = ends_ps
        return True

    @cached_property
    def periods(self) -> list[RowPeriod]:
        """The period of each repeat, the first time that it is repeated. All rows are in order."""
        came, found, firsts, last = self.form.came, list[RowPeriod](), list[int](), _NEVER
        for number, part in enumerate(self.parts):
            if isinstance(part, Repeat):
                first = firsts[-part.parts]
                last += part.n * part.ps
                found.append(RowPeriod(part.ps, sum(self._sizes[number - part.parts : number]), first, last))
                firsts.append(first + part.ps)
            else:
                firsts.append(int(part[0, came]))
                last = int(part[-1, came])
        return found

    def chunks(self, most_rows: int) -> Iterator[Table]:
        """All rows in order, about *most_rows* at a time. Do not change them."""
        return iter((self.rows,)) if self.n_rows <= _SHARED_ROWS else self._made(most_rows)

    def forget(self) -> None:
        """Make the rows anew when they are asked for again."""
        vars(self).pop("rows", None)

    def split(self, before_ps: int) -> tuple[CompressedRows, Table]:
        """A formula of the rows that came before *before_ps*, and the other rows. All are in order."""
        parts, later = list(self.parts), list[Table]()
        while parts:
            part = parts[-1]
            rows = self._last_time(len(parts) - 1, part) if isinstance(part, Repeat) else part
            n = int(np.searchsorted(rows[:, self.form.came], before_ps))
            if n == len(rows):
                break
            later.append(rows[n:])
            parts[-1:] = [part._replace(n=part.n - 1)] if isinstance(part, Repeat) and part.n > 1 else []
            if n:
                parts.append(rows[:n])
                break
        return CompressedRows(self.form, parts), joined(reversed(later), self.form.width)

    def _last_time(self, number: int, part: Repeat) -> Table:
        """The rows of the last repetition of *part*, which is part *number*."""
        later = part.n * part.ops, part.n * part.ps
        return joined(self._of_parts(range(number - part.parts, number), later, None), self.form.width)

    def mapped(self, change: Callable[[Table], Table]) -> CompressedRows:
        """The formula with other rows, which *change* gives. Steps of repeats stay."""
        parts = [part if isinstance(part, Repeat) else change(part) for part in self.parts]
        return CompressedRows(self.form, parts)

    def _made(self, most_rows: int | None) -> Iterator[Table]:
        return self._of_parts(range(len(self.parts)), (0, 0), most_rows)

    def _of_parts(self, numbers: range, later: tuple[int, int], most_rows: int | None) -> Iterator[Table]:
        """The rows of the parts *numbers*, later by so many ops and picoseconds, about *most_rows* at a time."""
        step = self.form.step(*later)
        for number in numbers:
            part = self.parts[number]
            if not isinstance(part, Repeat):
                yield self.form.later(part, step) if any(later) else part
                continue
            group = range(number - part.parts, number)
            n_rows = sum(self._sizes[group.start : group.stop])
            if most_rows is not None and n_rows > most_rows:
                for time in range(1, part.n + 1):
                    again = later[0] + time * part.ops, later[1] + time * part.ps
                    yield from self._of_parts(group, again, most_rows)
                continue
            rows = joined(self._of_parts(group, later, None), self.form.width)
            at_once = part.n if most_rows is None else max(1, most_rows // max(1, n_rows))
            for begin in range(0, part.n, at_once):
                yield self._again(rows, range(begin + 1, min(part.n, begin + at_once) + 1), part)

    def _again(self, rows: Table, times: range, by: Repeat) -> Table:
        """*rows*, once for each number in *times*, later by so many steps of *by*."""
        steps = np.array(times, dtype=np.int64)[:, None, None] * self.form.step(by.ops, by.ps)
        return self.form.later(rows[None], steps).reshape(-1, self.form.width)


def joined(tables: Iterable[Table], width: int) -> Table:
    """*tables*, whose rows have *width* numbers, as one."""
    found = list(tables)
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.empty((0, width), dtype=np.int64)


FIELDS: Final = 5
"""Integers that a stage service leaves behind: an op id, and the times at which the stage was ready, started, ended and
left its block."""
WAIT_FIELDS: Final = 4
"""Integers of a wait: an op id, a WaitReason, its picoseconds, and when the stage left its block."""
_N_TRANSFER: Final = 1 + len(LOG_TABLES["transfers"].columns)
"""Numbers of a row. A row of `transfers` has the moment at which it is known in front."""
MEMORY: Final = 2
"""The column of a transfer that names its memory."""

RECORDS: Final = RowForm(FIELDS, ops=(0,), times=(1, 2, 3, 4), came=4)
WAITS: Final = RowForm(WAIT_FIELDS, ops=(0,), times=(3,), came=3)
DISPATCHES: Final = RowForm(len(LOG_TABLES["dispatches"].columns), ops=(0,), times=(1, 2), came=2)
TRANSFERS: Final = RowForm(_N_TRANSFER, ops=(1, 10), times=(0, 3, 4, 5, 6, 7), came=0, absent=-1)


class CompressedTables(NamedTuple):
    """The rows of a part of a run: a formula for each kind."""

    records: CompressedRows
    waits: CompressedRows
    dispatches: CompressedRows
    transfers: CompressedRows

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that came."""
        return sum(formula.nbytes for formula in self)

    def later(self, ops: int, ps: int) -> CompressedTables:
        """The same rows, *ops* ops and *ps* picoseconds later."""
        moved = []
        for formula in self:
            form, step = formula.form, formula.form.step(ops, ps)
            moved.append(formula.mapped(lambda rows, form=form, step=step: form.later(rows, step)))  # type: ignore[misc]
        return CompressedTables(*moved)

    def with_memories(self, number_of: Table) -> CompressedTables:
        """The same rows, where memory *m* is number `number_of[m]`."""

        def renumbered(rows: Table) -> Table:
            found = rows.copy()
            found[:, MEMORY] = number_of[rows[:, MEMORY]]
            return found

        return self._replace(transfers=self.transfers.mapped(renumbered))
