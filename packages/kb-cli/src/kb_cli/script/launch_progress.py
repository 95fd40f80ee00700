"""Shows the progress of a script's launches on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kb_cli.run.base.progress import PASS_1, PASS_2, RunProgress, Simulated
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer


class LaunchProgress(Observer):
    """Shows the current launch on the line of *progress*, from its begin on.

    The line is there only while a launch is simulated, so that prints of the script stand on lines of their own.
    """

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._name = ""
        self._planned = self._served_before = self._began_ps = 0
        self._chip: Chip | None = None
        self._is_trial = False

    @contextmanager
    def launch(self, row: int, is_trial: bool) -> Iterator[None]:
        """Marks the block as the launch of *row*, or with *is_trial* as a launch before it that is only timed.

        Programs may run before the chip begins the launch. No observer watches the chip of a trial. An interrupt leaves
        the progress at the place of the launch.
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
        """Keeps the chip, whose clock and servers are counted."""
        self._chip = chip
        self._count_from_here()

    def on_launch(self) -> None:
        """Counts from here on."""
        self._count_from_here()

    def on_issue(self, command: CommandInFlight) -> None:
        """Adds the stages of *command*."""
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Adds the stages of *n* commands like *command*."""
        self._planned += n * command.shared_plan.n_stages

    def on_housekeeping(self) -> None:
        """Shows the progress of the launch, if an update is due."""
        if self._progress.is_due:
            self._tell()

    def on_launched(self) -> None:
        """Shows that the data of the launch are computed next."""
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
