"""NeverCloser: closes no command of its PE, and tells why."""

from __future__ import annotations

from typing import Final

from kb_engine.block.closable import ClosableWork
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.closed import closed_commands
from kb_engine.observe.by_event import COMMANDS, Reasons, WhyNot

ISSUES_AHEAD: Final = WhyNot(
    "the PE_CPU issues commands before earlier ones are done",
    "nothing, unless the chip may have `issue: blocking`, which is another chip with other times",
)


class NeverCloser:
    """Notes in *reasons*, with *why*, each command that is worth closing."""

    def __init__(self, why: WhyNot, reasons: Reasons) -> None:
        self._why = why
        self._reasons = reasons

    def wants(self, command: CommandInFlight) -> bool:
        """As Closer says."""
        self.missed(command)
        return False

    def missed(self, command: CommandInFlight) -> None:
        """As Closer says."""
        if command.shared_plan.n_stages >= closed_commands.LEAST_CLOSED_STAGES:
            self._reasons.note(COMMANDS, "", self._why._replace(line=command.submitted.line), 1)

    def close(self, work: ClosableWork) -> bool:
        """As Closer says."""
        return False
