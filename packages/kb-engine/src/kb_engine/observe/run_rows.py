"""RunRows: the rows of a run, which make the op log together with the commands. RunTables: its auxiliary tables.

Design: docs/design/op-log.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import error
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.log.compressed import (
    DISPATCHES,
    RECORDS,
    TRANSFERS,
    WAITS,
    CompressedRows,
    CompressedTables,
    Part,
    Repeat,
    RowForm,
    Table,
    int64s,
    int_columns,
    table,
)
from kb_engine.fabric.lazy_reads import ReadWay, completed, pack_row
from kb_engine.observe.observer import Rows
from kb_messages import MemorySpace
from kb_topology import NodeKind, Topology

Mark: TypeAlias = tuple[int, int]
"""An end of some rows: the number of kept integers, and the number of repetitions."""


class RepeatedRows:
    """Rows of one *form*. `tail` takes rows, flat: its methods cost no Python frame."""

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
        """How far the rows have come."""
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


class LazyTransfers(RepeatedRows):
    """The rows of `transfers`, with the packed rows that KeptTransfers describes.

    A row begins with the moment at which it is known.

    `tail` takes bytes, because packing a row at once takes less time than keeping its integers. The columns that follow
    from the way and the end of a read are computed for many rows at once when rows are taken out. With a log in memory,
    that is not on the path of the simulation.
    """

    def __init__(self) -> None:
        super().__init__(TRANSFERS)
        self._ways: list[ReadWay] = []

    def number_of(self, way: ReadWay) -> int:
        """The number of *way*, which is new."""
        self._ways.append(way)
        return len(self._ways) - 1

    def add(self, came_ps: int, row: tuple[int, ...]) -> None:
        """Takes *row*, which is complete at *came_ps*. Raises LogError for a time that does not fit 64 bits."""
        try:
            self.tail.append(pack_row(came_ps, *row))
        except error:
            int64s((came_ps, *row))

    @property
    def _n_pending(self) -> int:
        return len(self.tail) * self.form.width

    def _made_of_tail(self) -> Table:
        return np.frombuffer(b"".join(self.tail), np.int64).reshape(-1, self.form.width)

    def _completed(self, rows: Table) -> Table:
        return completed(rows, self._ways)


class RowsMark(NamedTuple):
    """How far the rows of a run had come."""

    records: Mark
    waits: Mark
    dispatches: Mark
    transfers: Mark


class RunRows:
    """The records, waits, dispatches and transfers of a run that are not in the log yet."""

    def __init__(self) -> None:
        self.records = RepeatedRows(RECORDS)
        self.waits = RepeatedRows(WAITS)
        self.dispatches = RepeatedRows(DISPATCHES)
        self.transfers = LazyTransfers()
        self._all = self.records, self.waits, self.dispatches, self.transfers

    @property
    def has_repeats(self) -> bool:
        """Whether rows repeat others."""
        return self.records.has_repeats

    def clear(self) -> None:
        """Drops all rows."""
        for rows in self._all:
            rows.clear()

    def settle(self) -> None:
        """Packs all rows into as little memory as they need."""
        for rows in self._all:
            rows.settle()

    def mark(self) -> RowsMark:
        """How far the rows have come."""
        return RowsMark(*[rows.mark() for rows in self._all])

    def repeat(self, mark: RowsMark, n: int, ops: int, ps: int) -> None:
        """Adds all rows since *mark* *n* times more, each time later by *ops* and *ps*."""
        for rows, since in zip(self._all, mark, strict=True):
            rows.repeat(since, n, ops, ps)

    def cut(self, mark: RowsMark | None = None) -> CompressedTables:
        """Takes out all rows since *mark*. Raises LogError for a time that does not fit 64 bits."""
        return CompressedTables(*[rows.cut(since) for rows, since in zip(self._all, mark or [(0, 0)] * 4, strict=True)])

    def put_back(self, tables: Sequence[Table]) -> None:
        """Keeps *tables*, rows of each kind, which were cut and came last."""
        for rows, cut in zip(self._all, tables, strict=True):
            rows.put_back(cut)

    def drop_before(self, mark: RowsMark, t_ps: int) -> None:
        """Forgets the rows since *mark* that came before *t_ps*."""
        self.put_back([each.rows[each.rows[:, each.form.came] >= t_ps] for each in self.cut(mark)])


class RunTables:
    """Collects the times of programs, their commands and their tiles, and makes the auxiliary tables from them.

    `tile_waited` takes the three numbers of a row of `dispatches` for *rows*. It is a list's own method, which costs
    little. `transfers` is the table of *rows*. *intern* gives the number of a text in the log.
    """

    def __init__(self, rows: RunRows, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self._kernels: list[tuple[str, tuple[int, ...]]] = []
        self._messages: list[tuple[tuple[str, str], tuple[int, ...]]] = []
        self.tile_waited: Callable[[Iterable[int]], None] = rows.dispatches.tail.extend
        self.transfers = rows.transfers

    def restart(self, intern: Callable[[str], int]) -> None:
        """Forgets all rows. From now on *intern* gives the numbers of texts, in another log."""
        self._intern = intern
        self._kernels.clear()
        self._messages.clear()

    def number_of(self, text: str) -> int:
        """The number of *text* in the log."""
        return self._intern(text)

    def kernel_ended(self, pe: str, numbers: tuple[int, int, int, int, int]) -> None:
        """Notes the end of a program on *pe*. *numbers* are its launch and the four times of a row of `kernels`."""
        self._kernels.append((pe, numbers))

    def message_arrived(self, way: tuple[str, str], numbers: tuple[int, int, int, int]) -> None:
        """Notes a message of a launch. *way* is (from, to); *numbers* are launch, kind and the two times."""
        self._messages.append((way, numbers))

    def name_nodes(self, topology: Topology) -> None:
        """Enters the ids of PEs, processors and memories into the log: their numbers follow from the chip alone."""
        for pe_id in topology.graph.pe_ids:
            self._intern(pe_id)
        for region in topology.address_map.regions:
            if region.space is not MemorySpace.REG:
                self._intern(region.node_id)
        for kind in (NodeKind.HOST, NodeKind.IO_CPU, NodeKind.M_CPU, NodeKind.PE_CPU):
            for node in topology.graph.nodes_of_kind(kind):
                self._intern(node.id)

    def take(self) -> dict[str, Rows]:
        """The rows of programs and messages since the last call, by table.

        Raises LogError for a time that does not fit 64 bits.
        """
        intern = self._intern
        kernels, self._kernels = self._kernels, []
        messages, self._messages = self._messages, []
        launch, called, target, start, end = int_columns((numbers for _, numbers in kernels), 5)
        of, kind, sent, arrived = int_columns((numbers for _, numbers in messages), 4)
        (pe,) = int_columns(([intern(pe)] for pe, _ in kernels), 1)
        src, dst = int_columns(([intern(end) for end in way] for way, _ in messages), 2)
        return {
            "kernels": table("kernels", [launch, pe, called, target, start, end]),
            "messages": table("messages", [of, src, dst, kind, sent, arrived]),
        }
