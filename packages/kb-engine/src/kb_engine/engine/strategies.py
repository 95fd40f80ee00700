"""The chain of strategies that an engine asks to run a launch, and how the engine finds the wing that holds them.

Design: docs/design/fast-forward.md

The last strategy simulates every event, and defines all results. The wing `kb_engine.fastforward`
has strategies that skip events, and is not imported by name anywhere: without the wing, every event is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from kb_engine.engine.build import Built
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.launch.launch import Launch, LaunchResult, PeLaunch
from kb_engine.observe.observer import Observer
from kb_engine.observe.slow_path import SkipRefusal, SlowPathCount, SlowPathReasons
from kb_engine.program.grid import Grid
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall
from kb_engine.program.session import Session

WING: Final = "kb_engine.fastforward"


class LaunchRequest(NamedTuple):
    """Launch number `number` of the kernel of `call`: one program on each of `pes`, or the programs of `grid`."""

    number: int
    session: Session
    pes: Sequence[ProcessingElement]
    call: KernelCall
    grid: Grid | None


Run = Callable[[Launch], LaunchResult]
"""Sends a launch to its PEs, and has the clock run until the launch is answered."""


class Attempt(NamedTuple):
    """The times of a launch, or None where a strategy cannot run it, and the reason why nothing was skipped, if any."""

    result: LaunchResult | None = None
    refusal: SkipRefusal | None = None


class Strategy(Protocol):
    """One way to run a launch."""

    def try_run(self, request: LaunchRequest, run: Run) -> Attempt:
        """Runs the launch of *request*, by *run*, if the strategy can.

        A launch of which the strategy never skips anything has neither a result nor a refusal.
        """


class Skipped(NamedTuple):
    """Counts of the work that a wing did not simulate event by event, since the engine was made.

    `isolated_commands` took the result of an equal command, or ran apart. `skipped_commands` are the commands of
    `skipped_programs`. `slow_path` says why other work was simulated event by event.
    """

    isolated_commands: int = 0
    skipped_commands: int = 0
    skipped_programs: int = 0
    skipped_tiles: int = 0
    slow_path: Sequence[SlowPathCount] = ()


class FastForward(Protocol):
    """The interface of a wing for an engine: `strategies` to ask in turn, and notifications of launches."""

    strategies: Sequence[Strategy]

    @property
    def is_searching(self) -> bool:
        """Whether programs of the launch under way may yet be skipped."""

    def launch_begins(self, n_pes: int) -> None:
        """Notes that a launch on *n_pes* PEs begins."""

    def launch_failed(self) -> None:
        """Notes that an error ended the launch. Events that the wing skipped ahead do not happen any more."""

    def skipped(self) -> Skipped:
        """Returns the counts so far."""


def every_event(request: LaunchRequest, run: Run) -> LaunchResult:
    """Simulates every event of a launch, unless hooks of a wing skip parts of its commands. Returns the times."""
    number, session, pes, call, grid = request
    if grid is None:
        return run(PeLaunch(number, session, pes, call))
    return run(GridLaunch(number, session, pes, call, grid))


def fast_forward_of(
    built: Built, observers: Sequence[Observer], templates: bool, reasons: SlowPathReasons
) -> FastForward | None:
    """Returns the wing for the chip *built*, which *observers* watch, or None where no wing is installed.

    Without *templates*, each program of a grid runs its kernel. *reasons* collects why work is not skipped.
    """
    try:
        wing = import_module(WING)
    except ModuleNotFoundError as error:
        if error.name != WING:
            raise
        return None
    found: FastForward = wing.fast_forward(built, observers, templates, reasons)
    return found
