"""Tells on the terminal how far a launch of a script is."""

from __future__ import annotations

from kb_cli.run.progress import PASS_1, RunProgress, Simulated
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer


class LaunchProgress(Observer):
    """Shows the launch that runs on the line of *progress*, a few times a second.

    The line is there only while a launch is simulated, so that what the script prints stands on lines of its own.
    """

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._number = 0
        self._planned = 0
        self._served_before = 0
        self._is_shown = False

    def on_built(self, chip: Chip) -> None:
        """As `Observer.on_built`: keeps the clock, and the servers whose services are counted."""
        self._clock = chip.clock
        self._servers = chip.servers

    def on_launch(self) -> None:
        """As `Observer.on_launch`: counts from here on."""
        self._number += 1
        self._planned, self._served_before, self._began_ps = 0, self._served(), self._clock.now_ps

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`: adds the stages of *command*."""
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """As `Observer.on_issue_again`."""
        self._planned += n * command.shared_plan.n_stages

    def on_housekeeping(self) -> None:
        """As `Observer.on_housekeeping`: tells how far the launch is, if an update is due."""
        if not self._progress.is_due:
            return
        if not self._is_shown:
            self._progress.begin(PASS_1, f"launch {self._number}")
            self._is_shown = True
        t_ps, stages = self._clock.now_ps - self._began_ps, self._served() - self._served_before
        self._progress.simulated(Simulated(t_ps=t_ps, stages=stages, planned=self._planned, pes_done=0, pes=0))

    def on_launched(self) -> None:
        """As `Observer.on_launched`: removes the line."""
        if self._is_shown:
            self._progress.pause()
        self._is_shown = False

    def _served(self) -> int:
        return sum(server.served for server in self._servers)
