"""IssuedAgain: the commands that one step issues in a period and its repetitions, as columns until they are needed.

Design: docs/design/steady-state.md
"""

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
    """The commands of `submission` by programs on PE `pe_id`, one a period, from period `first` on.

    The programs are `given` addresses, and `numbers` has the numbers of each program. Commands are numbered from `seq`
    on, `step` by `step`. `addresses` has numbers, or arrays with a number for each period; where `alone` is set, it has
    one entry for each period.
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
        """Returns the command of period *i*."""
        command: Command = self.submission.command(self.numbers[i - self.first], self.given)
        return command

    def at(self, i: int) -> Issued:
        """Returns the command of period *i*, with its number, and its addresses."""
        return self.submitted(i), self._addresses_at(i)

    def submitted(self, i: int) -> SubmittedCommand:
        """Returns the command of period *i*, with its number."""
        seq = self.seq + (i - self.first) * self.step
        return SubmittedCommand(command_seq=seq, pe=self.pe_id, line=self.submission.line, command=self.command(i))

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
