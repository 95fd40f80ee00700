"""PendingRows: rows of one kind that wait to be written, and repetitions of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from kb_dataexec.log.compressed.compressed_rows import CompressedRows, Part, Repeat, RowForm, Table
from kb_dataexec.log.compressed.int_arrays import int64s

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
        """The number of rows since *mark*; -1 where some of them repeat others."""
        kept, repeats = self.mark()
        return (kept - mark[0]) // self.form.width if repeats == mark[1] else -1

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
