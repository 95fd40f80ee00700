"""IssueSource and IssuedAgain: a command of a period, and those that its step issues in later periods.

Addresses of later commands are columns, one number for each period, until a command is needed.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.log.compressed import addresses_of
from kb_engine.block.in_flight import CommandInFlight, Issued
from kb_engine.fastforward.replay import Issue, Repetition
from kb_engine.program.pe import ProcessingElement
from kb_messages import Command, PipelinePlan, SubmittedCommand

Addresses: TypeAlias = tuple[int, ...] | None


class IssueSource(NamedTuple):
    """A command of a period, from which the commands of later periods are made.

    Program `program` issued it as number `number` of all commands, when `run` was at `issue`. The program is `given`
    addresses. `command` is the command itself, or None if the log has it already. `example` is the same command if it
    is done, or else the command of the period before. `turns` has the slots by which its registers move on in a period.
    """

    number: int
    program: int
    run: Repetition
    given: Sequence[int]
    issue: Issue
    pe: ProcessingElement
    command: CommandInFlight | None
    example: CommandInFlight | None
    turns: tuple[int, int] | None


class IssuedAgain(NamedTuple):
    """The commands of `source` in later periods, one a period, from period `first` on.

    `numbers` has the numbers of each program. Commands are numbered `step` by `step`. `addresses` has numbers, or
    arrays with a number for each period; where `alone` is set, it has one entry for each period.
    """

    source: IssueSource
    numbers: Sequence[list[int]]
    first: int
    step: int
    addresses: Sequence[Any]
    alone: bool = False

    def command(self, i: int) -> Command:
        """Returns the command of period *i*."""
        command: Command = self.source.issue.submission.command(self.numbers[i - self.first], self.source.given)
        return command

    def at(self, i: int) -> Issued:
        """Returns the command of period *i*, with its number, and its addresses."""
        return self.submitted(i), self._addresses_at(i)

    def submitted(self, i: int) -> SubmittedCommand:
        """Returns the command of period *i*, with its number."""
        seq, line = self.source.number + i * self.step, self.source.issue.submission.line
        return SubmittedCommand(command_seq=seq, pe=self.source.pe.pe_id, line=line, command=self.command(i))

    def columns(self, periods: range, plan: PipelinePlan) -> Sequence[Any]:
        """Returns the addresses of commands of *plan* in *periods*: numbers, or arrays with a number for each
        period."""
        begin, end = periods.start - self.first, periods.stop - self.first
        if self.alone:
            return list(addresses_of([each or plan.addresses for each in self.addresses[begin:end]]).T)
        return [each[begin:end] if isinstance(each, np.ndarray) else each for each in self.addresses]

    def _addresses_at(self, i: int) -> Addresses:
        if self.alone:
            found: Addresses = self.addresses[i - self.first]
            return found
        return tuple([int(each[i - self.first]) if isinstance(each, np.ndarray) else each for each in self.addresses])
