"""Reports the progress of pass 1 from the clock's housekeeping."""

from __future__ import annotations

from kb_cli.run.base.progress import RunProgress, Simulated
from kb_engine import Engine
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer


class SimulationWatch(Observer):
    """Counts the stages of issued commands, and reports to *progress* a few times a second. `follow` sets the
    engine.
    """

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._planned = 0
        self._engine: Engine | None = None

    def follow(self, engine: Engine) -> None:
        """Reports the progress of *engine* from now on."""
        self._engine = engine

    @property
    def kernel_positions(self) -> list[str]:
        """One line for each kernel that says where it stands."""
        return self._engine.kernel_positions() if self._engine is not None else []

    def on_built(self, chip: Chip) -> None:
        """Keeps the clock, and the servers whose services are counted."""
        self._clock = chip.clock
        self._servers = chip.servers

    def on_issue(self, command: CommandInFlight) -> None:
        """Adds the stages of *command*."""
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Adds the stages of *n* commands like *command*."""
        self._planned += n * command.shared_plan.n_stages

    def on_housekeeping(self) -> None:
        """Reports the progress if an update is due."""
        if self._progress.is_due:
            self.tell()

    def tell(self) -> None:
        """Reports the progress of pass 1 now."""
        if self._engine is None:
            return
        pes_done, pes = self._engine.programs
        self._progress.simulated(
            Simulated(
                t_ps=self._clock.now_ps,
                stages=sum(server.served for server in self._servers),
                planned=self._planned,
                pes_done=pes_done,
                pes=pes,
            )
        )
