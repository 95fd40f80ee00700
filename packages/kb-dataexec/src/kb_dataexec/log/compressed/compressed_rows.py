"""CompressedRows: rows of integers, stored as literal rows and repetitions of the rows before them.

PendingRows takes such rows one by one while a run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_dataexec.log.compressed.int_arrays import int64s
from kb_messages import LOG_TABLES

Table: TypeAlias = npt.NDArray[np.int64]
"""Rows of integers."""

_SHARED_ROWS: Final = 1 << 18
"""Up to so many rows are made once and kept. Source: assumed; at most 23 MB."""


_NEVER: Final = int(np.iinfo(np.int64).min)


class RowForm(NamedTuple):
    """The columns of a kind of rows.

    `width` is the number of columns, `ops` are the columns with op ids, `times` are the columns with times, and `came`
    is the column with the time at which the row came. A number equal to `absent` is neither an op id nor a time.
    """

    width: int
    ops: tuple[int, ...]
    times: tuple[int, ...]
    came: int
    absent: int | None = None

    def step(self, ops: int, ps: int) -> Table:
        """The row to add to a row so that it comes *ps* picoseconds and *ops* ops later, of shape (width,)."""
        step = np.zeros(self.width, dtype=np.int64)
        step[list(self.ops)], step[list(self.times)] = ops, ps
        return step

    def later(self, rows: Table, step: Table) -> Table:
        """Returns *rows* plus *step*, a row or a matrix as large as *rows*. Numbers equal to `absent` stay."""
        found = rows + step
        return found if self.absent is None else np.where(rows == self.absent, rows, found)


class Repeat(NamedTuple):
    """Repeats the rows of the `parts` parts before it `n` times, each time `ps` picoseconds and `ops` ops later."""

    parts: int
    n: int
    ops: int
    ps: int


Part: TypeAlias = Table | Repeat


class RowPeriod(NamedTuple):
    """A span of time in which *n_rows* rows come again every *ps* picoseconds: first at *begin_ps*, last at
    *end_ps*.
    """

    ps: int
    n_rows: int
    begin_ps: int
    end_ps: int


class CompressedRows:
    """Rows of one *form*: *parts* are tables of rows, and repetitions of the parts before them."""

    def __init__(self, form: RowForm, parts: Sequence[Part]) -> None:
        self.form = form
        self.parts = parts

    @cached_property
    def _sizes(self) -> list[int]:
        """The number of rows of each part."""
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
        """The time at which the last row came; the least int64 without rows."""
        lasts: list[int] = []
        for part in self.parts:
            if isinstance(part, Repeat):
                lasts.append(max(lasts[-part.parts :]) + part.n * max(0, part.ps))
            else:
                lasts.append(int(part[:, self.form.came].max()) if len(part) else _NEVER)
        return max(lasts, default=_NEVER)

    @property
    def nbytes(self) -> int:
        """The bytes of the stored rows."""
        return sum(part.nbytes for part in self.parts if not isinstance(part, Repeat))

    @cached_property
    def rows(self) -> Table:
        """All rows, of shape (n_rows, width). Do not change them."""
        return joined(list(self._made(None)), self.form.width)

    def in_order(self) -> CompressedRows:
        """The rows in the order of time. Rows that came in order stay as they are."""
        if self.is_in_order:
            return self
        return CompressedRows(self.form, [self.rows[np.argsort(self.rows[:, self.form.came], kind="stable")]])

    @property
    def is_in_order(self) -> bool:
        """Whether the rows are in the order of time. Makes no row."""
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
        """The period of each repetition. Needs rows in the order of time."""
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
        """Yields all rows in order, about *most_rows* at a time. Do not change them."""
        return iter((self.rows,)) if self.n_rows <= _SHARED_ROWS else self._made(most_rows)

    def forget(self) -> None:
        """Frees the rows. They are made again when they are asked for."""
        vars(self).pop("rows", None)

    def split(self, before_ps: int) -> tuple[CompressedRows, Table]:
        """Splits rows in the order of time: compressed rows that came before *before_ps*, and a table of the others."""
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
        """The rows of the last time that *part*, part *number*, repeats."""
        later = part.n * part.ops, part.n * part.ps
        return joined(self._of_parts(range(number - part.parts, number), later, None), self.form.width)

    def mapped(self, change: Callable[[Table], Table]) -> CompressedRows:
        """Applies *change* to each stored table of rows. Repetitions stay as they are."""
        parts = [part if isinstance(part, Repeat) else change(part) for part in self.parts]
        return CompressedRows(self.form, parts)

    def _made(self, most_rows: int | None) -> Iterator[Table]:
        return self._of_parts(range(len(self.parts)), (0, 0), most_rows)

    def _of_parts(self, numbers: range, later: tuple[int, int], most_rows: int | None) -> Iterator[Table]:
        """Yields the rows of the parts *numbers*, *later* by (ops, picoseconds), about *most_rows* at a time."""
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
        """Repeats *rows* once for each number in *times*, later by that many steps of *by*."""
        steps = np.array(times, dtype=np.int64)[:, None, None] * self.form.step(by.ops, by.ps)
        return self.form.later(rows[None], steps).reshape(-1, self.form.width)


def joined(tables: Iterable[Table], width: int) -> Table:
    """Returns *tables*, whose rows have *width* columns, as one table."""
    found = list(tables)
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.empty((0, width), dtype=np.int64)


Mark: TypeAlias = tuple[int, int]
"""An end of some rows: the number of kept integers, and the number of repetitions."""


class PendingRows:
    """Rows of one *form* that are not in the log yet. `tail` takes rows, flat: its methods cost no Python frame."""

    def __init__(self, form: RowForm) -> None:
        self.tail: list[Any] = []
        self.form = form
        self._parts: list[Part] = []
        self._kept = self._repeats = 0

    @property
    def n_kept(self) -> int:
        """The rows that take room."""
        return (self._kept + self._n_pending) // self.form.width

    @property
    def has_repeats(self) -> bool:
        """Whether rows repeat others."""
        return bool(self._repeats)

    def clear(self) -> None:
        """Drops all rows."""
        self.tail.clear()
        self._parts.clear()
        self._kept = self._repeats = 0

    def mark(self) -> Mark:
        """The present end of the rows."""
        return self._kept + self._n_pending, self._repeats

    def repeat(self, mark: Mark, n: int, ops: int, ps: int) -> None:
        """Adds all rows since *mark* *n* times more, each time later by *ops* and *ps*."""
        self.settle()
        first = self._part_at(mark)
        if first < len(self._parts):
            self._parts.append(Repeat(len(self._parts) - first, n, ops, ps))
            self._repeats += 1

    def n_since(self, mark: Mark) -> int:
        """The number of rows since *mark*, with repeated rows; -1 where some of them repeat rows before *mark*."""
        kept, repeats = self.mark()
        if repeats == mark[1]:
            return (kept - mark[0]) // self.form.width
        self.settle()
        parts = self._parts[self._part_at(mark) :]
        if any(isinstance(each, Repeat) and each.parts > number for number, each in enumerate(parts)):
            return -1
        return CompressedRows(self.form, parts).n_rows

    @property
    def n_rows(self) -> int:
        """The number of all rows, with repeated rows."""
        return CompressedRows(self.form, self._parts).n_rows + self._n_pending // self.form.width

    def cut(self, mark: Mark = (0, 0)) -> CompressedRows:
        """Takes out all rows since *mark*. Raises LogError for a time that does not fit 64 bits."""
        self.settle()
        first = self._part_at(mark)
        parts = self._parts[first:]
        assert all(number >= each.parts for number, each in enumerate(parts) if isinstance(each, Repeat))
        found = CompressedRows(self.form, parts).mapped(self._completed)
        del self._parts[first:]
        self._kept, self._repeats = mark
        return found

    def put_back(self, rows: Table) -> None:
        """Keeps *rows*, which were cut and came last."""
        if len(rows):
            self.settle()
            self._parts.append(rows)
            self._kept += rows.size

    def drop_before(self, mark: Mark, t_ps: int) -> None:
        """Drops the rows since *mark* that came before *t_ps*."""
        rows = self.cut(mark).rows
        self.put_back(rows[rows[:, self.form.came] >= t_ps])

    def settle(self) -> None:
        """Makes a part of the tail."""
        if self.tail:
            part = self._made_of_tail()
            self._parts.append(part)
            self._kept += part.size
            self.tail.clear()

    @property
    def _n_pending(self) -> int:
        """The integers of the tail."""
        return len(self.tail)

    def _made_of_tail(self) -> Table:
        """The rows of the tail, which is not empty."""
        return int64s(self.tail).reshape(-1, self.form.width)

    def _completed(self, rows: Table) -> Table:
        """Completes *rows* when they are taken out."""
        return rows

    def _part_at(self, mark: Mark) -> int:
        """The number of the part that begins at *mark*, which is cut there if need be."""
        kept, repeats = self._kept - mark[0], self._repeats - mark[1]
        number = len(self._parts)
        while kept > 0 or repeats > 0:
            number -= 1
            part = self._parts[number]
            if isinstance(part, Repeat):
                repeats -= 1
            elif kept < part.size:
                self._cut(number, (part.size - kept) // self.form.width)
                return number + 1
            else:
                kept -= part.size
        return number

    def _cut(self, number: int, at: int) -> None:
        part = self._parts[number]
        assert not isinstance(part, Repeat)
        self._parts[number : number + 1] = [part[:at], part[at:]]
        for later in range(number + 2, len(self._parts)):
            each = self._parts[later]
            if isinstance(each, Repeat) and later - each.parts <= number + 1:
                self._parts[later] = each._replace(parts=each.parts + 1)


FIELDS: Final = 5
"""The columns of a record of a stage service: op id, and the times at which the stage was ready, started, ended and
left its block."""
WAIT_FIELDS: Final = 4
"""The columns of a wait: op id, WaitReason, picoseconds, and the time at which the stage left its block."""
_N_TRANSFER: Final = 1 + len(LOG_TABLES["transfers"].columns)
"""The columns of a transfer: the time at which the row is known, and then the columns of `transfers`."""
MEMORY: Final = 2
"""The column of a transfer that has the number of its memory."""

RECORDS: Final = RowForm(FIELDS, ops=(0,), times=(1, 2, 3, 4), came=4)
WAITS: Final = RowForm(WAIT_FIELDS, ops=(0,), times=(3,), came=3)
DISPATCHES: Final = RowForm(len(LOG_TABLES["dispatches"].columns), ops=(0,), times=(1, 2), came=2)
TRANSFERS: Final = RowForm(_N_TRANSFER, ops=(1, 10), times=(0, 3, 4, 5, 6, 7), came=0, absent=-1)


class CompressedTables(NamedTuple):
    """The compressed rows of a part of a run: records, waits, dispatches and transfers."""

    records: CompressedRows
    waits: CompressedRows
    dispatches: CompressedRows
    transfers: CompressedRows

    @property
    def nbytes(self) -> int:
        """The bytes of the stored rows."""
        return sum(rows.nbytes for rows in self)

    def later(self, ops: int, ps: int) -> CompressedTables:
        """Returns the same rows, *ops* ops and *ps* picoseconds later."""
        moved = []
        for rows in self:
            form, step = rows.form, rows.form.step(ops, ps)
            moved.append(rows.mapped(lambda table, form=form, step=step: form.later(table, step)))  # type: ignore[misc]
        return CompressedTables(*moved)

    def with_memories(self, number_of: Table) -> CompressedTables:
        """Returns the same rows, in which memory *m* has the number `number_of[m]`."""

        def renumbered(rows: Table) -> Table:
            found = rows.copy()
            found[:, MEMORY] = number_of[rows[:, MEMORY]]
            return found

        return self._replace(transfers=self.transfers.mapped(renumbered))
