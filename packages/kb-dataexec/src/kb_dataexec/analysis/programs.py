"""Programs: finds the program of a launch that issued a command, by the tables `commands` and `kernels` of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from kb_dataexec.analysis.critical_path.timestamp_index import TimestampIndex
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_messages import CallCause

_COMMAND_COLUMNS: Final = ("command_seq", "pe", "t_call_ps", "after")


Numbering: TypeAlias = tuple[int, ...] | tuple[str, ...]
"""The sizes of the grid of a launch; or the names of its PEs in the order of their programs, for a launch without a
grid; or () where neither is known."""


class ProgramName(Struct, frozen=True, kw_only=True):
    """A program of launch number `launch`, which ran on the PE `pe`.

    `ids` are the numbers of the program along the axes of its grid, or its one number where the sizes of the grid are
    not known. They are empty where each PE has one program: a log does not hold the numbers of such programs.
    """

    launch: int
    ids: tuple[int, ...]
    pe: str

    @property
    def number(self) -> str:
        """The number of the program as text: `program 3`, `program (1, 2)`, or "" for a program without a number."""
        if not self.ids:
            return ""
        return f"program {self.ids[0]}" if len(self.ids) == 1 else f"program {self.ids}"

    def __str__(self) -> str:
        return f"{self.number} on {self.pe}" if self.ids else self.pe


class ProgramRows(NamedTuple):
    """The programs of a log: a row each, in the order of its table `kernels`. `launch` and `pe` number them."""

    launch: Array
    pe: Array


def program_of_calls(kernels: Array, pe: Array, t_call_ps: Array) -> Array:
    """Returns the row of the table *kernels* for calls of *pe* at *t_call_ps*: the program that had begun last there.

    It is -1 if that program has no row, because the log was cut off before it ended.
    """
    if not len(kernels):
        return np.full(len(pe), -1, np.int64)
    order = np.lexsort((kernels["launch"], kernels["t_start_ps"], kernels["pe"]))
    started = TimestampIndex(kernels["pe"][order].astype(np.int64), kernels["t_start_ps"][order])
    found = started.latest_until(pe, t_call_ps)
    rows = order[started.order[found]]
    return np.where((found >= 0) & (t_call_ps <= kernels["t_end_ps"][rows]), rows, -1)


class Programs:
    """The programs of a log, found while the log is read: pass each chunk, or the whole log, to `look`.

    `is_known` is False for a log that lacks one of the two tables, or that has no row of `kernels`.
    """

    def __init__(self) -> None:
        self._commands: list[Array] = []
        self._kernels: list[Array] = []
        self._strings: Sequence[str] = ()
        self._is_missing = False
        self._found: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, log: OpLog) -> Programs:
        """Returns the programs of *log*."""
        found = cls()
        found.look(log)
        return found

    def look(self, chunk: OpLog) -> None:
        """Takes the two tables of *chunk*, a part of a log or a whole one."""
        self._strings = chunk.strings
        self._found = None
        if not chunk.tables:  # the rows of several chunks came at once, and the last of these chunks has the tables
            return
        if "commands" in chunk.missing or "kernels" in chunk.missing:
            self._is_missing = True
            return
        commands = chunk.table("commands")
        self._commands.append(np.stack([commands[name].astype(np.int64) for name in _COMMAND_COLUMNS]))
        self._kernels.append(chunk.table("kernels"))

    @property
    def is_known(self) -> bool:
        """Whether the log says which program issued a command."""
        return not self._is_missing and any(map(len, self._kernels))

    @property
    def rows(self) -> ProgramRows:
        """The launch and the PE of each program."""
        kernels = self._table()
        return ProgramRows(kernels["launch"].astype(np.int64), kernels["pe"].astype(np.int64))

    def of_commands(self, command_seq: Array) -> Array:
        """Returns the row of the program that issued each of the commands *command_seq*; -1 where none is known."""
        seq, row = self._by_command()
        if not len(seq):
            return np.full(len(command_seq), -1, np.int64)
        at = np.minimum(np.searchsorted(seq, command_seq), len(seq) - 1)
        return np.where(seq[at] == command_seq, row[at], -1)

    def name(self, row: int, grids: Sequence[Numbering] = ()) -> ProgramName:
        """Returns the name of the program of *row*. *grids* has the numbering of each launch, in their order.

        Without *grids*, programs have one number where a PE has several programs of the launch.
        """
        launch, pe = self.rows
        mine = np.flatnonzero(launch == launch[row])
        at, nth = int(np.searchsorted(np.unique(launch), launch[row])), int(np.searchsorted(mine, row))
        numbering = grids[at] if at < len(grids) else ()
        if not numbering and len(np.unique(pe[mine])) < len(mine):
            numbering = (len(mine),)
        name = self._strings[int(pe[row])]
        return ProgramName(launch=int(launch[row]), ids=_ids(numbering, nth, name), pe=name)

    def _table(self) -> Array:
        return np.concatenate(self._kernels)

    def _by_command(self) -> tuple[Array, Array]:
        """The numbers of all commands, which ascend, and the row of the program of each."""
        if self._found is None:
            columns = np.concatenate(self._commands, axis=1)
            seq, pe, called, after = columns[:, np.argsort(columns[0], kind="stable")]
            kernels = self._table()
            row = program_of_calls(kernels, pe, called)
            self._found = seq, _before_ties(kernels, row, called, after == CallCause.START)
        return self._found


def _ids(numbering: Numbering, nth: int, pe: str) -> tuple[int, ...]:
    """The ids of program number *nth* of a grid, or of the one program on *pe*; () without a numbering."""
    if pe in numbering:
        return (numbering.index(pe),)
    sizes = [each for each in numbering if isinstance(each, int)]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return tuple(int(each) for each in np.unravel_index(nth, sizes, order="F")) if sizes else ()


def _before_ties(kernels: Array, row: Array, called: Array, is_first: Array) -> Array:
    """Returns *row*, the program of each command in the order of commands, with the ties of times resolved.

    A program may begin in the picosecond of the last call of the program before it. Its own calls begin with the one
    that *is_first* marks.
    """
    known = row >= 0
    tied = np.flatnonzero(known & (called == kernels["t_start_ps"][row]) & ~is_first)
    if not len(tied):
        return row
    begins = np.full(len(kernels), -1, np.int64)
    firsts = np.flatnonzero(known & is_first)[::-1]
    begins[row[firsts]] = firsts
    earlier = tied[tied < begins[row[tied]]]
    order = np.lexsort((kernels["t_start_ps"], kernels["pe"]))
    before = np.full(len(kernels), -1, np.int64)
    same = kernels["pe"][order[1:]] == kernels["pe"][order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    found = row.copy()
    found[earlier] = before[row[earlier]]
    return found
