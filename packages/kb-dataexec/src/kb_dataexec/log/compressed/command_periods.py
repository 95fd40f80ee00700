"""CommandPeriods: commands that repeat earlier commands, period by period, stored as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_dataexec.log.compressed.chunk_format import CAUSES, COMMAND_TIMES
from kb_dataexec.log.compressed.command import CommandLike, LoggedCommand, LoggedIssue, PlacementLike
from kb_dataexec.log.compressed.compressed_rows import Table

_LATER_SEQ: Final = ("after_seq", "operand_seq")
_numbers_of: Final = attrgetter("first_op", "submitted.command_seq", *COMMAND_TIMES, *CAUSES)


Column: TypeAlias = int | npt.NDArray[Any]


class CommandShift(NamedTuple):
    """The distance from a command to the same command of the next period, in picoseconds, ops and commands."""

    ps: int
    ops: int
    commands: int


class RepeatedCommand(NamedTuple):
    """A finished command `like`, and the differences of its repetitions from it.

    `addresses` has one entry for each address: an integer, or an array with one integer for each period; None if all
    addresses are those of the plan. `placements` has a placement for each period; None if all are that of `like`.
    """

    like: CommandLike
    addresses: Sequence[Column] | None
    placements: Sequence[PlacementLike] | None


class CommandPeriods:
    """The commands *repeated*, in the order of their ops, once more in each of *n* periods, later by *shift* each time.

    A skip over programs leaves so many commands that making an object for each would take longer than the skip itself.
    So they stay columns until somebody needs commands. `first_op` is the first op of the first command, and `t_done_ps`
    is the time at which the last command was done.
    """

    def __init__(self, repeated: Sequence[RepeatedCommand], n: int, shift: CommandShift) -> None:
        self.repeated, self.n = repeated, n
        self._shift = shift
        self.first_op = repeated[0].like.first_op + shift.ops
        self.t_done_ps = max(each.like.t_done_ps for each in repeated) + n * shift.ps

    @property
    def numbers(self) -> Table:
        """A matrix with a row for each command: `first_op`, `command_seq`, COMMAND_TIMES and CAUSES."""
        like = np.array([_numbers_of(each.like) for each in self.repeated], dtype=np.int64)
        by_name = dict.fromkeys(COMMAND_TIMES, self._shift.ps) | dict.fromkeys(_LATER_SEQ, self._shift.commands)
        step = [self._shift.ops, self._shift.commands, *[by_name.get(name, 0) for name in (*COMMAND_TIMES, *CAUSES)]]
        periods = np.arange(1, self.n + 1, dtype=np.int64)[:, None, None]
        later = like[None] + periods * np.array(step, dtype=np.int64)
        return np.where(like[None] < 0, like[None], later).reshape(-1, like.shape[1])

    @cached_property
    def addresses(self) -> npt.NDArray[Any]:
        """The addresses of all commands, command after command."""
        columns = list[Column]()
        for each in self.repeated:
            columns += each.like.shared_plan.addresses if each.addresses is None else each.addresses
        found: npt.NDArray[Any] = np.empty((self.n, len(columns)), dtype=_dtype_of(columns))
        for number, column in enumerate(columns):
            found[:, number] = column
        return found.reshape(-1)

    def placements(self) -> Iterator[PlacementLike]:
        """The placements of all commands."""
        columns = [each.placements or [each.like.placement] * self.n for each in self.repeated]
        return chain.from_iterable(zip(*columns, strict=True))

    def commands(self) -> Iterator[LoggedCommand]:
        """Yields all commands, in the order of their ops."""
        places, addresses = self.placements(), self.addresses.tolist()
        likes = [(each.like.submitted, each.like.shared_plan) for each in self.repeated] * self.n
        at = 0
        for (issued, plan), placement, row in zip(likes, places, self.numbers.tolist(), strict=True):
            first_op, seq, *others = row
            end = at + len(plan.addresses)
            issue = LoggedIssue(seq, issued.pe, issued.line)
            yield LoggedCommand(first_op, issue, plan, tuple(addresses[at:end]), placement, *others)
            at = end


def _dtype_of(columns: Sequence[Column]) -> type:
    """int64, or object if an address of *columns* needs more bits."""
    has_large = any(each >> 63 if isinstance(each, int) else each.dtype == object for each in columns)
    return object if has_large else np.int64


def each_command(commands: Iterable[CommandLike | CommandPeriods]) -> Iterator[CommandLike]:
    """Yields all of *commands* one by one: CommandPeriods yield each of their commands."""
    for each in commands:
        if isinstance(each, CommandPeriods):
            yield from each.commands()
        else:
            yield each
