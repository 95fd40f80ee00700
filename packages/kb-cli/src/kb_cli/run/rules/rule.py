"""Rule: the base of all rules on the kernel's side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kb_cli.run.base.remedy import Remedy
from kb_dataexec import OpLog

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts


class Rule(ABC):
    """A rule: takes each chunk of a log, then says whether the run has its flaw. It keeps sums, and no rows."""

    def look(self, chunk: OpLog) -> None:  # noqa: B027
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log.

        The default takes nothing, for a rule that the sums of `RunFacts` are enough for.
        """

    @abstractmethod
    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the flaw, or None for a run without the flaw."""
