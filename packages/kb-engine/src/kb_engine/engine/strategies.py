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
from kb_engine.launch.launch import Launch, PeLaunch
from kb_engine.observe.observer import Observer
from kb_engine.observe.slow_path import SkipRefusal, SlowPathCount, SlowPathReasons
from kb_engine.program.grid import Grid
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall
from kb_engine.program.session import Session

WING: Final = "kb_engine.fastforward"


class LaunchRequest(NamedTuple):
    """Launch number `number` of the kernel of `call`: one program on each of `pes`, or the programs of `grid`.

    The host called at `called_ps`, or now where that is None.
    """

    number: int
    session: Session
    pes: Sequence[ProcessingElement]
    call: KernelCall
    grid: Grid | None
    called_ps: int | None = None


class MadeLaunch(NamedTuple):
    """A launch that is ready to be sent to its PEs.

    `ended()` is called once, when the launch has ended or failed. It returns why no program was skipped, if there is a
    reason.
    """

    launch: Launch
    ended: Callable[[], SkipRefusal | None]


class Strategy(Protocol):
    """One way to run a launch."""

    def make(self, request: LaunchRequest) -> MadeLaunch | SkipRefusal | None:
        """Makes the launch of *request*, if the strategy can run it; otherwise returns the reason.

        The result is None for a launch of which the strategy never skips anything.
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


def made_launch(strategies: Sequence[Strategy], request: LaunchRequest) -> MadeLaunch:
    """Makes the launch of *request* by the first of *strategies* that can.

    Without one, every event is simulated, unless hooks of a wing skip parts of the commands.
    """
    refusal: SkipRefusal | None = None
    for strategy in strategies:
        made = strategy.make(request)
        if isinstance(made, MadeLaunch):
            return made
        refusal = made
    number, session, pes, call, grid, called_ps = request
    if grid is None:
        return MadeLaunch(PeLaunch(number, session, pes, call, called_ps), lambda: refusal)
    return MadeLaunch(GridLaunch(number, session, pes, call, grid, called_ps=called_ps), lambda: refusal)


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
