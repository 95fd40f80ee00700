"""Tells on the terminal how far a launch of a script is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kb_cli.run.base.progress import PASS_1, PASS_2, RunProgress, Simulated
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer


class LaunchProgress(Observer):
    """Shows the launch that runs on the line of *progress*, from its begin on.

    The line is there only while a launch is simulated, so that what the script prints stands on lines of its own.
    """

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._name = ""
        self._planned = self._served_before = self._began_ps = 0
        self._chip: Chip | None = None
        self._is_trial = False

    @contextmanager
    def launch(self, row: int, is_trial: bool) -> Iterator[None]:
        """The launch of *row* is under way within the block, or with *is_trial* one before it that is timed alone.

        Programs may run before the chip begins the launch. Nobody watches the chip of a trial. An interrupt leaves
        the progress where the launch was.
        """
        self._is_trial = is_trial
        self._name = f"a trial before launch {row:04d}" if is_trial else f"launch {row:04d}"
        self._count_from_here()
        self._progress.begin(PASS_1, self._name)
        try:
            yield
        except KeyboardInterrupt:
            if self._progress.phase == PASS_1:
                self._tell()
            raise
        finally:
            self._progress.pause()

    def on_built(self, chip: Chip) -> None:
        """As `Observer.on_built`: keeps the clock, and the servers whose services are counted."""
        self._chip = chip
        self._count_from_here()

    def on_launch(self) -> None:
        """As `Observer.on_launch`: counts from here on."""
        self._count_from_here()

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`: adds the stages of *command*."""
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """As `Observer.on_issue_again`."""
        self._planned += n * command.shared_plan.n_stages

    def on_housekeeping(self) -> None:
        """As `Observer.on_housekeeping`: tells how far the launch is, if an update is due."""
        if self._progress.is_due:
            self._tell()

    def on_launched(self) -> None:
        """As `Observer.on_launched`: the data of the launch come next."""
        self._progress.begin(PASS_2, self._name)

    def _tell(self) -> None:
        if self._chip is None or self._is_trial:
            return
        t_ps, stages = self._chip.clock.now_ps - self._began_ps, self._served() - self._served_before
        self._progress.simulated(Simulated(t_ps=t_ps, stages=stages, planned=self._planned, pes_done=0, pes=0))

    def _count_from_here(self) -> None:
        self._planned = 0
        if self._chip is not None:
            self._served_before, self._began_ps = self._served(), self._chip.clock.now_ps

    def _served(self) -> int:
        return sum(server.served for server in self._chip.servers) if self._chip is not None else 0
