"""IssuedAgain: what programs of a period and of those that follow issue at one step, as columns until it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.log.compressed import addresses_of
from kb_engine.block.in_flight import Issued
from kb_engine.fastforward.replay import Submission
from kb_messages import Command, PipelinePlan, SubmittedCommand

Addresses: TypeAlias = tuple[int, ...] | None


class IssuedAgain(NamedTuple):
    """Programs on PE `pe_id`, which are `given` addresses, come to `submission`, one a period, from period `first` on.

    `numbers` has the numbers of each of them. Their commands are numbered from `seq` on, `step` by `step`, and have
    these `addresses`: numbers, or arrays with a number for each period. Where `alone` is set, each has one entry.
    """

    submission: Submission
    pe_id: str
    given: Sequence[int]
    numbers: Sequence[list[int]]
    first: int
    seq: int
    step: int
    addresses: Sequence[Any]
    alone: bool = False

    def command(self, i: int) -> Command:
        """The command of period *i*."""
        command: Command = self.submission.command(self.numbers[i - self.first], self.given)
        return command

    def at(self, i: int) -> Issued:
        """What is issued in period *i*."""
        return self.submitted(i), self._addresses_at(i)

    def submitted(self, i: int) -> SubmittedCommand:
        """The command of period *i*, with its number."""
        seq = self.seq + (i - self.first) * self.step
        return SubmittedCommand(command_seq=seq, pe=self.pe_id, line=self.submission.line, command=self.command(i))

    def columns(self, periods: range, plan: PipelinePlan) -> Sequence[Any]:
        """The addresses in *periods*: numbers, or arrays with a number for each. They have *plan*."""
        begin, end = periods.start - self.first, periods.stop - self.first
        if self.alone:
            return list(addresses_of([each or plan.addresses for each in self.addresses[begin:end]]).T)
        return [each[begin:end] if isinstance(each, np.ndarray) else each for each in self.addresses]

    def _addresses_at(self, i: int) -> Addresses:
        if self.alone:
            found: Addresses = self.addresses[i - self.first]
            return found
        return tuple([int(each[i - self.first]) if isinstance(each, np.ndarray) else each for each in self.addresses])
