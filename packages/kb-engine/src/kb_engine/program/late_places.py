"""LatePlaces: cuts of buffers and registers that are made when a program begins that depends on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kb_engine.block.closable import ClosableWork

WorkByPe = Mapping[str, Sequence[ClosableWork]]
"""By the id of a PE, the commands of a launch that were done on the PE without being simulated."""

_MOST_LAUNCHES: Final = 1 << 8
_MOST_COMMANDS: Final = 1 << 14
"""Launches, and commands of different launches, whose cuts have yet to be made. Source: assumed; a command takes 2
kB."""


class LatePlaces:
    """The commands whose buffers and registers have yet to be cut, in a run without an op log.

    Where buffers lie is told by the log alone. Of a command that was done at once, only the slots of later commands
    depend on its cuts. A PE on which no program runs any more needs none of them.
    """

    def __init__(self) -> None:
        self._launches: list[WorkByPe] = []
        self._n_commands: dict[int, int] = {}
        self._n_placed: dict[str, int] = {}

    def add(self, launch: WorkByPe, n_commands: int) -> None:
        """The commands of *launch* come next; at the end there are *n_commands* of them."""
        if len(self._launches) >= _MOST_LAUNCHES or sum(self._n_commands.values()) > _MOST_COMMANDS:
            self._place_all()
        self._launches.append(launch)
        self._n_commands[id(launch)] = n_commands

    def place(self, pe_id: str) -> None:
        """A program begins on the PE *pe_id*, or commands of the PE are simulated otherwise: make its cuts."""
        launches = self._launches
        if launches:
            for number in range(self._n_placed.get(pe_id, 0), len(launches)):
                self._n_placed[pe_id] = number + 1
                for work in launches[number].get(pe_id, ()):
                    work.place_again(work.command)

    def _place_all(self) -> None:
        for pe_id in dict.fromkeys(pe_id for launch in self._launches for pe_id in launch):
            self.place(pe_id)
        self._launches.clear()
        self._n_commands.clear()
        self._n_placed.clear()
