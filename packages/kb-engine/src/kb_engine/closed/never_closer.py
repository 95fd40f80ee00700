"""NeverCloser: closes no command of its PE, and tells why."""

from __future__ import annotations

from typing import Final

from kb_engine.block.closable import ClosableWork
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.by_event import COMMANDS, Reasons, WhyNot

ISSUES_AHEAD: Final = WhyNot(
    "the PE_CPU issues commands before earlier ones are done",
    "nothing, unless the chip may have `issue: blocking`, which is another chip with other times",
)


class NeverCloser:
    """Notes in *reasons*, with *why*, each command that has *least_stages* or more."""

    def __init__(self, why: WhyNot, least_stages: int, reasons: Reasons) -> None:
        self._why = why
        self._least_stages = least_stages
        self._reasons = reasons

    def wants(self, command: CommandInFlight) -> bool:
        """As Closer says."""
        self.missed(command)
        return False

    def missed(self, command: CommandInFlight) -> None:
        """As Closer says."""
        if command.shared_plan.n_stages >= self._least_stages:
            self._reasons.note(COMMANDS, "", self._why._replace(line=command.submitted.line), 1)

    def close(self, work: ClosableWork) -> bool:
        """As Closer says."""
        return False
