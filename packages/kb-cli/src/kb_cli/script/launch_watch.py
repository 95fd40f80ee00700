"""LaunchWatch: what the observers of a run count, for each launch of a script anew."""

from __future__ import annotations

from kb_cli.run.counters import BlockCounters
from kb_cli.run.plan_tally import PlanTally
from kb_cli.run.usage import Usage
from kb_cli.script.launch_sanitizer import LaunchSanitizer
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer


class LaunchWatch(Observer):
    """Watches the launches of a script. What it has is that of the last launch.

    `sanitizer`, which watches on its own, is None unless the launches are searched.
    """

    def __init__(self, sanitizer: LaunchSanitizer | None = None) -> None:
        self.sanitizer = sanitizer
        self.plans, self.usage, self.counters = PlanTally(), Usage(), BlockCounters()

    def on_built(self, chip: Chip) -> None:
        """As `Observer.on_built`."""
        self._chip = chip

    def on_launch(self) -> None:
        """As `Observer.on_launch`: begins anew."""
        self.plans, self.usage, self.counters = PlanTally(), Usage(), BlockCounters()
        for each in (self.usage, self.counters):
            each.on_built(self._chip)
            each.on_launch()

    def on_launched(self) -> None:
        """As `Observer.on_launched`."""
        self.usage.on_launched()
        self.counters.on_launched()

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`."""
        self.plans.on_issue(command)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """As `Observer.on_issue_again`."""
        self.plans.on_issue_again(command, n)
