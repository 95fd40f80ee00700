"""CommandRows: the tables of a chunk of formulas that tell of commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.address_arrays import owners_and_offsets
from kb_dataexec.log.formulas.chunk_plans import ChunkPlans
from kb_dataexec.log.formulas.chunk_tables import CAUSES, COMMAND_TIMES, SLOTS, Intern, ints, rows_of, with_columns
from kb_dataexec.log.formulas.command import LoggedCommand, PlacementOf, SlotRing
from kb_dataexec.log.formulas.command_periods import CommandPeriods
from kb_dataexec.log.formulas.row_formula import Table
from kb_messages import OFFSET_BITS, OFFSET_MASK

_told_of: Final = attrgetter(*COMMAND_TIMES, *CAUSES)
_slots_of: Final = attrgetter(*SLOTS)
_N_NAMED: Final = 2
"""Columns of `CommandPeriods.numbers` in front of the times."""


class CommandRows:
    """Takes commands in the order of their ops. *intern* numbers the texts of the log, and *plans* has the plans."""

    def __init__(self, intern: Intern, plans: ChunkPlans) -> None:
        self._intern, self._plans = intern, plans
        self._rows, self._addresses = list[Table](), list[Table]()
        self._moved = list[int]()
        self._slots = dict[tuple[int, ...], int]()

    @property
    def tables(self) -> dict[str, Array]:
        """The tables, by name."""
        return {
            "commands": with_columns("commands", self._rows),
            "addresses": with_columns("addresses", self._addresses),
            "moved": rows_of("moved", self._moved),
            "slots": rows_of("slots", chain.from_iterable(self._slots)),
        }

    def add(self, commands: Iterable[LoggedCommand | CommandPeriods]) -> None:
        """Add *commands*. Raises LogError for a time that does not fit 64 bits."""
        alone = list[LoggedCommand]()
        for each in commands:
            if isinstance(each, CommandPeriods):
                self._add_each(alone)
                alone.clear()
                self._add_periods(each)
            else:
                alone.append(each)
        self._add_each(alone)

    def _add_each(self, commands: Iterable[LoggedCommand]) -> None:
        rows, addresses = list[int](), list[int]()
        for command in commands:
            plan, issued, placement = command.shared_plan, command.submitted, command.placement
            rows += (command.first_op, issued.command_seq, self._intern(issued.pe), self._intern(issued.line))
            rows += (self._plans.number_of(plan), self._move(placement))
            rows += _told_of(command)
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
        """The numbers of the slots of each command, a row for each."""
        found = np.empty((periods.n, len(periods.repeated), len(SLOTS)), dtype=np.int64)
        for column, each in enumerate(periods.repeated):
            found[:, column] = [self._slots_numbers(at) for at in each.placements or (each.like.placement,)]
        return found.reshape(-1, len(SLOTS))

    def _move(self, placement: PlacementOf) -> int:
        """Add the pieces of *placement* that lie in no slot. Returns their number."""
        before = len(self._moved)
        for place, pieces in placement.moved.items():
            for piece, offset in pieces.items():
                self._moved += (place, piece, offset)
        return (len(self._moved) - before) // 3

    def _slots_numbers(self, placement: PlacementOf) -> list[int]:
        """The numbers of the slots of *placement* among those of the chunk; -1 for none."""
        return [-1 if each is None else self._slots_number(each) for each in _slots_of(placement)]

    def _slots_number(self, slots: SlotRing) -> int:
        return self._slots.setdefault((slots.base, slots.nbytes, slots.count, slots.first), len(self._slots))


def _matrix(name: str, rows: Sequence[int]) -> Table:
    return ints(rows_of(name, rows))
