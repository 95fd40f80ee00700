"""Observers of a script's launches, which begin anew with each launch, and statistics over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from kb_cli.run.base.result import Sanitized, SimStats
from kb_cli.run.observe.counters import BlockCounters
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.usage import Usage
from kb_cli.run.simulation.sanitizer import Naming, SanitizerWatch, sanitize_run
from kb_cli.run.simulation.sim_stats import added, sim_stats
from kb_dataexec import MemoryStore, OpLog
from kb_engine import Engine, LaunchResult
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer
from kb_engine.program import LeakWatch, WrapWatch


class LaunchSanitizer(Observer):
    """Observes the events of a launch that its log does not show. It has the events of the last launch."""

    def __init__(self) -> None:
        self._watch = SanitizerWatch(LeakWatch(), WrapWatch())

    def on_launch(self) -> None:
        """Begins anew."""
        self._watch = SanitizerWatch(LeakWatch(), WrapWatch())

    def on_allocate(self, pe_id: str, address: int, nbytes: int, line: str) -> None:
        """Passes the allocation to the search for leaks."""
        self._watch.leaks.on_allocate(pe_id, address, nbytes, line)

    def on_free(self, pe_id: str, address: int) -> None:
        """Passes the release to the search for leaks."""
        self._watch.leaks.on_free(pe_id, address)

    def on_program_end(self, pe_id: str, held: Sequence[int]) -> None:
        """Passes the end of a program to the search for leaks."""
        self._watch.leaks.on_program_end(pe_id, held)

    def on_wrapped_index(self, pe_id: str, line: str, wrapped_at: str) -> None:
        """Passes the wrapped index to its search."""
        self._watch.wraps.on_wrapped_index(pe_id, line, wrapped_at)

    def found(self, log: OpLog, initial: MemoryStore, result: LaunchResult, naming: Naming) -> Sanitized:
        """Returns the findings in the launch that gave *log* and *result*, on the memory *initial*."""
        return sanitize_run(log, initial, [(result.start_ps, result.end_ps)], self._watch, naming)


class LaunchWatch(Observer):
    """Observes the figures of a launch: plans, usage and counters. It has the figures of the last launch.

    `sanitizer`, which observes on its own, is None unless the launches are searched. `looks_for_races` says whether
    races alone are looked for.
    """

    def __init__(self, sanitizer: LaunchSanitizer | None = None, looks_for_races: bool = False) -> None:
        self.sanitizer = sanitizer
        self.looks_for_races = looks_for_races
        self.plans, self.usage, self.counters = PlanTally(), Usage(), BlockCounters()

    def on_built(self, chip: Chip) -> None:
        """Keeps the chip for the observers of each launch."""
        self._chip = chip

    def on_launch(self) -> None:
        """Begins anew."""
        self.plans, self.usage, self.counters = PlanTally(), Usage(), BlockCounters()
        for each in (self.plans, self.usage, self.counters):
            each.on_built(self._chip)
            each.on_launch()

    def on_launched(self) -> None:
        """Ends the counts of the launch."""
        self.usage.on_launched()
        self.counters.on_launched()

    def on_issue(self, command: CommandInFlight) -> None:
        """Adds the plan of *command*."""
        self.plans.on_issue(command)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Adds the plans of *n* commands like *command*."""
        self.plans.on_issue_again(command, n)


class LaunchWork:
    """Adds up the statistics of engines. A script has one engine, and another one after each launch that failed."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._before: SimStats | None = None

    def add(self, engine: Engine) -> None:
        """Notes that a launch on *engine* has ended."""
        if self._engine is not None and engine is not self._engine:
            self._before = self._all()
        self._engine = engine

    @property
    def so_far(self) -> SimStats | UnsetType:
        """The statistics of all launches; missing without one."""
        return UNSET if self._engine is None else self._all()

    def _all(self) -> SimStats:
        assert self._engine is not None
        found = sim_stats(self._engine, is_noted=False)
        return found if self._before is None else added(self._before, found)
