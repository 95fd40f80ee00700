"""Tells from the clock's housekeeping how far pass 1 is."""

from __future__ import annotations

from kb_cli.run.base.progress import RunProgress, Simulated
from kb_engine import Engine
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer


class SimulationWatch(Observer):
    """Counts the stages of issued commands, and tells *progress* a few times a second. `engine` is set by `follow`."""

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._planned = 0
        self._engine: Engine | None = None

    def follow(self, engine: Engine) -> None:
        """Tell of *engine* from now on."""
        self._engine = engine

    @property
    def standing(self) -> list[str]:
        """Where the kernels stand."""
        return self._engine.standing() if self._engine is not None else []

    def on_built(self, chip: Chip) -> None:
        """As `Observer.on_built`: keeps the clock, and the servers whose services are counted."""
        self._clock = chip.clock
        self._servers = chip.servers

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`: adds the stages of *command*."""
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """As `Observer.on_issue_again`."""
        self._planned += n * command.shared_plan.n_stages

    def on_housekeeping(self) -> None:
        """As `Observer.on_housekeeping`."""
        if self._progress.is_due:
            self.tell()

    def tell(self) -> None:
        """Tell how far pass 1 is now."""
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
