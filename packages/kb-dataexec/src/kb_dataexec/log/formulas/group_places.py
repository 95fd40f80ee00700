"""GroupPlaces: where the operands of a group of commands lie, as arrays with a column for each command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_dataexec.log.formulas.address_arrays import addresses_of, owners_and_offsets
from kb_dataexec.log.formulas.command import LoggedCommand, SlotRing
from kb_messages import Place

_Ints = npt.NDArray[np.int64]

_SLOTS_OF: Final = {
    place: attrgetter(f"placement.{name}")
    for place, name in (
        (Place.INPUT_BUFFER, "input"),
        (Place.PANEL, "panel"),
        (Place.OUTPUT_BUFFER, "output"),
        (Place.REGISTERS, "registers"),
        (Place.ACCUMULATOR, "accumulators"),
    )
}


class GroupPlaces:
    """The places of *commands*, which have one structure. Each column is made when it is first asked for."""

    def __init__(self, commands: Sequence[LoggedCommand]) -> None:
        self._commands = commands
        self._slots: dict[Place, _Ints] = {}
        self._moved: dict[Place, list[tuple[int, Mapping[int, int]]]] = {}

    @cached_property
    def addresses(self) -> npt.NDArray[Any]:
        """The addresses of operands in memory, a row for each operand."""
        return addresses_of([command.addresses or command.shared_plan.addresses for command in self._commands]).T

    @cached_property
    def memories(self) -> tuple[_Ints, _Ints]:
        """The owners and the offsets of operands in memory, a row for each operand."""
        return owners_and_offsets(self.addresses)

    def slots(self, place: Place) -> _Ints:
        """The slots of *place*: rows of their base, bytes, count and first."""
        known = self._slots.get(place)
        if known is None:
            rows: dict[int, tuple[int, int, int, int]] = {}
            found = []
            for slots in map(_SLOTS_OF[place], self._commands):
                row = rows.get(id(slots))
                if row is None:
                    row = rows[id(slots)] = _numbers(slots, place)
                found.append(row)
            known = self._slots[place] = np.array(found, dtype=np.int64).T
        return known

    def moved(self, place: Place) -> list[tuple[int, Mapping[int, int]]]:
        """The commands with pieces of *place* that lie in no slot: their numbers, and the offset of each such piece."""
        known = self._moved.get(place)
        if known is None:
            found = ((number, each.placement.moved.get(place)) for number, each in enumerate(self._commands))
            known = self._moved[place] = [(number, pieces) for number, pieces in found if pieces]
        return known


def _numbers(slots: SlotRing | None, place: Place) -> tuple[int, int, int, int]:
    assert slots is not None, f"a plan uses {place.name} without slots"
    return slots.base, slots.nbytes, slots.count, slots.first
