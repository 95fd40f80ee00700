"""CompressedWriter: packs commands, plans and compressed rows of a run into chunks of the op log."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.chunk_format import (
    CAUSES,
    COMMAND_TIMES,
    ENDING,
    KINDS,
    SLOTS,
    Intern,
    ints,
    pack_chunk,
    rows_of,
    with_columns,
)
from kb_dataexec.log.compressed.command import CommandLike, PlacementLike, SlotRing
from kb_dataexec.log.compressed.command_group import structure
from kb_dataexec.log.compressed.command_periods import CommandPeriods
from kb_dataexec.log.compressed.compressed_rows import CompressedRows, CompressedTables, Repeat, Table
from kb_dataexec.log.compressed.expected_rows import ExpectedRows
from kb_dataexec.log.compressed.int_arrays import owners_and_offsets
from kb_dataexec.log.compressed.row_maker import Places
from kb_messages import OFFSET_BITS, OFFSET_MASK, PipelinePlan, encode_plan


class ChunkPlans:
    """The plans of a chunk. Plans that differ only in addresses, blocks and kernel lines share a form."""

    def __init__(self, intern: Intern) -> None:
        self._intern = intern
        self._numbers: dict[int, int] = {}
        self._form_numbers: dict[Hashable, int] = {}
        self._of_origins: dict[int, int] = {}
        self._plans, self._stages = list[int](), list[int]()
        self.forms = list[bytes]()

    @property
    def tables(self) -> dict[str, Array]:
        """The tables `plans` (the number of the form of each plan) and `stages` (the block and line of each stage)."""
        return {"plans": rows_of("plans", self._plans), "stages": rows_of("stages", self._stages)}

    def number_of(self, plan: PipelinePlan) -> int:
        """Returns the number of *plan* in the chunk. A new plan is added."""
        number = self._numbers.get(id(plan))
        if number is None:
            number = self._numbers[id(plan)] = len(self._numbers)
            self._plans.append(self._form_number(plan))
            for stage in plan.stages:
                self._stages += (self._intern(stage.component), self._intern(stage.line) if stage.line else -1)
        return number

    def _form_number(self, plan: PipelinePlan) -> int:
        """Returns the number of the form of *plan*. A plan of pieces has a form of its own."""
        origin = id(plan.origin)
        number = self._of_origins.get(origin)
        if number is None:
            form = plan.kind, structure(plan)
            number = self._form_numbers.get(form)
            if number is None:
                number = self._form_numbers[form] = len(self._form_numbers)
                self.forms.append(encode_plan(plan))
            if not plan.stages[0].in_pieces:
                self._of_origins[origin] = number
        return number


_times_and_causes_of: Final = attrgetter(*COMMAND_TIMES, *CAUSES)
_slots_of: Final = attrgetter(*SLOTS)
_N_NAMED: Final = 2
"""The number of columns of `CommandPeriods.numbers` before the times."""


class CommandRows:
    """The tables of a chunk that describe commands: `commands`, `addresses`, `moved` and `slots`.

    Commands are added in the order of their op ids. *intern* returns the number of a string of the log, and *plans*
    collects the plans.
    """

    def __init__(self, intern: Intern, plans: ChunkPlans) -> None:
        self._intern, self._plans = intern, plans
        self._rows, self._addresses = list[Table](), list[Table]()
        self._moved = list[int]()
        self._slots = dict[tuple[int, ...], int]()

    @property
    def tables(self) -> dict[str, Array]:
        """The tables by name."""
        return {
            "commands": with_columns("commands", self._rows),
            "addresses": with_columns("addresses", self._addresses),
            "moved": rows_of("moved", self._moved),
            "slots": rows_of("slots", chain.from_iterable(self._slots)),
        }

    def add(self, commands: Iterable[CommandLike | CommandPeriods]) -> None:
        """Adds *commands*. Raises LogError for a time that needs more than 64 bits."""
        alone = list[CommandLike]()
        for each in commands:
            if isinstance(each, CommandPeriods):
                self._add_each(alone)
                alone.clear()
                self._add_periods(each)
            else:
                alone.append(each)
        self._add_each(alone)

    def _add_each(self, commands: Iterable[CommandLike]) -> None:
        rows, addresses = list[int](), list[int]()
        for command in commands:
            plan, issued, placement = command.shared_plan, command.submitted, command.placement
            rows += (command.first_op, issued.command_seq, self._intern(issued.pe), self._intern(issued.line))
            rows += (self._plans.number_of(plan), self._move(placement))
            rows += _times_and_causes_of(command)
            rows += self._slots_numbers(placement)
            for address in command.addresses or plan.addresses:
                addresses += (address >> OFFSET_BITS, address & OFFSET_MASK)
        self._rows.append(_matrix("commands", rows))
        self._addresses.append(_matrix("addresses", addresses))

    def _add_periods(self, periods: CommandPeriods) -> None:
        named, n_moved = list[tuple[int, ...]](), len(self._moved)
        for like in (each.like for each in periods.repeated):
            issued = like.submitted
            texts = self._intern(issued.pe), self._intern(issued.line)
            named.append((*texts, self._plans.number_of(like.shared_plan), self._move(like.placement)))
        self._moved += self._moved[n_moved:] * (periods.n - 1)
        numbers, again = periods.numbers, np.tile(np.array(named, dtype=np.int64), (periods.n, 1))
        slots = self._slots_of_periods(periods)
        self._rows.append(np.hstack([numbers[:, :_N_NAMED], again, numbers[:, _N_NAMED:], slots]))
        self._addresses.append(np.stack(owners_and_offsets(periods.addresses), axis=1))

    def _slots_of_periods(self, periods: CommandPeriods) -> Table:
        """The slot numbers of each command, as a matrix (commands, SLOTS)."""
        found = np.empty((periods.n, len(periods.repeated), len(SLOTS)), dtype=np.int64)
        for column, each in enumerate(periods.repeated):
            found[:, column] = [self._slots_numbers(at) for at in each.placements or (each.like.placement,)]
        return found.reshape(-1, len(SLOTS))

    def _move(self, placement: PlacementLike) -> int:
        """Adds the pieces of *placement* that lie in no slot. Returns the number of these pieces."""
        before = len(self._moved)
        for place, pieces in placement.moved.items():
            for piece, offset in pieces.items():
                self._moved += (place, piece, offset)
        return (len(self._moved) - before) // 3

    def _slots_numbers(self, placement: PlacementLike) -> list[int]:
        """The rows of the table `slots` for the slots of *placement*; -1 where a place has no slots."""
        return [-1 if each is None else self._slots_number(each) for each in _slots_of(placement)]

    def _slots_number(self, slots: SlotRing) -> int:
        return self._slots.setdefault((slots.base, slots.nbytes, slots.count, slots.first), len(self._slots))


def _matrix(name: str, rows: Sequence[int]) -> Table:
    return ints(rows_of(name, rows))


_PENDING: Final = -1
"""The number of the compressed tables that belong to no isolated command."""


class CompressedWriter:
    """Packs chunks of compressed rows, one after the other, which a `CompressedReader` unpacks in the same order.

    Commands that are done, and compressed tables of isolated commands, are written once: later chunks refer to them by
    number. *intern* returns the number of a string of the log.
    """

    def __init__(self, places: Places, intern: Intern) -> None:
        self._places = places
        self._intern = intern
        self._is_first = True
        self._done: set[int] = set()
        self._table_numbers: WeakKeyDictionary[CompressedRows, int] = WeakKeyDictionary()
        self._n_tables = 0
        self._isolated: set[int] = set()

    def chunk(
        self,
        pending: CompressedTables,
        commands: Sequence[CommandLike | CommandPeriods],
        expected: ExpectedRows,
        before_ps: int,
        ending: Mapping[str, Array],
    ) -> bytes:
        """Returns a chunk of the rows of *pending* and *expected* that came before *before_ps* picoseconds.

        *commands* are all commands that may have rows in this chunk or a later one. *ending* has the rows of the
        tables in ENDING. Raises LogError for a time that needs more than 64 bits.
        """
        tables = {ENDING[name]: rows for name, rows in ending.items()}
        tables["chunk"] = rows_of("chunk", (before_ps, self._places.chunk_records))
        if self._is_first:
            tables["pes"] = rows_of("pes", chain.from_iterable(self._pes()))
        self._is_first = False
        plans = ChunkPlans(self._intern)
        self._put_commands(commands, tables, plans)
        self._put_rows(pending, expected, tables)
        return pack_chunk(tables | plans.tables, plans.forms)

    def _pes(self) -> Iterable[tuple[int, int, int]]:
        of_tcm, of_registers = self._places.owners
        for pe in self._places.pe_numbers:
            yield self._intern(pe), of_tcm.get(pe, -1), of_registers.get(pe, 0)

    def _put_commands(
        self, commands: Sequence[CommandLike | CommandPeriods], tables: dict[str, Array], plans: ChunkPlans
    ) -> None:
        """Puts the commands that were not done in an earlier chunk, with the placements and times known so far."""
        undone = [command for command in commands if command.first_op not in self._done]
        self._done = {command.first_op for command in commands if command.t_done_ps >= 0}
        rows = CommandRows(self._intern, plans)
        rows.add(undone)
        tables |= rows.tables

    def _put_rows(self, pending: CompressedTables, expected: ExpectedRows, tables: dict[str, Array]) -> None:
        """Puts the compressed rows, and the isolated commands that have rows left."""
        parts, rows = list[int](), {kind: list[Array]() for kind in KINDS}
        _put_compressed(pending, _PENDING, parts, rows)
        isolated, memories, left = list[int](), list[int](), set[int]()
        for first_op, each in expected.isolated.items():
            left.add(first_op)
            if first_op in self._isolated:
                isolated += (first_op, 0, 0, -1, 0)
                continue
            # Equal commands share their rows, which are written once.
            number = self._table_numbers.get(each.rows.records)
            if number is None:
                number = self._table_numbers[each.rows.records] = self._n_tables
                self._n_tables += 1
                _put_compressed(each.rows, number, parts, rows)
            isolated += (first_op, *each.span_ps, number, len(each.memories))
            memories += each.memories
        self._isolated = left
        tables |= {kind: with_columns(kind, rows[kind]) for kind in KINDS}
        tables |= {
            name: rows_of(name, values)
            for name, values in (("parts", parts), ("closed", isolated), ("memories", memories))
        }


def _put_compressed(tables: CompressedTables, number: int, parts: list[int], rows: dict[str, list[Array]]) -> None:
    for kind, (name, of_kind) in enumerate(zip(KINDS, tables, strict=True)):
        for part in of_kind.parts:
            if isinstance(part, Repeat):
                parts += (number, kind, -part.parts, part.n, part.ops, part.ps)
            else:
                parts += (number, kind, len(part), 0, 0, 0)
                rows[name].append(part)
