"""EventWork: what of a simulation was closed, skipped or repeated, and why the rest was simulated event by event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from kb_engine.closed.closed_commands import ClosedCommands
from kb_engine.engine.build import Exactness
from kb_engine.fold.folder import Folder
from kb_engine.launch.grid_folding import GridFolding
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.launch.launch import Launch
from kb_engine.launch.repeats import LaunchRepeats
from kb_engine.observe.by_event import ByEvent, Reasons, WhyNot
from kb_engine.program.session import Session
from kb_engine.template import NO_LOOP

TURNS, PROGRAMS = "turns of a loop", "programs of a grid"
_MANY: Final = 64
"""Commands of a program from which on it is said that a kernel has no loop of its own. Source: assumed."""

_HEARS: Final = {
    "on_stage": "each stage",
    "on_wait": "each wait of a tile",
    "on_trace": "each event, as `kb run --trace` asks",
    "on_issue": "each command, and there is no op log",
    "on_allocate": "TCM that is given",
    "on_free": "TCM that is free again",
    "on_program_end": "each end of a program",
}
"""What an observer is told of, by its method."""


class SimulatedWork(Struct, frozen=True, kw_only=True):
    """How the launches that have ended were simulated, since the engine was made. `skipped_tiles`, `events` and
    `by_event` also have what a launch has done that goes on or has failed.

    Of `commands`, `closed_commands` were worked out at once, and `skipped_commands` are those of `skipped_programs` of
    grids and turns of loops; the others were simulated event by event, but for `skipped_tiles` of them. Of `launches`,
    `repeated_launches` did as an earlier one did, and of `foreseen_launches` one program of each kind ran. `events` are
    the entries of the clock. `by_event` has what could have been closed or skipped and was not, and why, the most
    commands first. Reasons of launches count all commands that were simulated event by event; those of commands that
    have many tiles count each of them once more.
    """

    launches: int
    repeated_launches: int
    foreseen_launches: int
    commands: int
    closed_commands: int
    skipped_commands: int
    skipped_programs: int
    skipped_tiles: int
    events: int
    by_event: tuple[ByEvent, ...]

    @property
    def event_commands(self) -> int:
        """The commands that were simulated event by event."""
        return self.commands - self.closed_commands - self.skipped_commands


class EventWork:
    """Adds up launches of *session*. *reasons* has those that were found so far.

    `programs` are the numbers of those that were compared and of those that were skipped, turns of loops among them.
    """

    def __init__(
        self,
        session: Session,
        closed: ClosedCommands | None,
        folder: Folder | None,
        repeats: LaunchRepeats | None,
        reasons: Reasons,
    ) -> None:
        self._session = session
        self._closed = closed
        self._folder = folder
        self._repeats = repeats
        self._reasons = reasons
        self._launches = self._commands = self._closed_commands = self._skipped_commands = 0
        self._begin = self.programs = 0, 0

    def begins(self) -> None:
        """A launch is called now."""
        self._begin = self._session.commands_issued, self._n_closed

    def ended(self, kernel: Any, launch: Launch, folding: GridFolding | WhyNot | None) -> None:
        """A *launch* of *kernel* has ended. *folding* folded it, or says why nothing could; None where nothing was to
        be folded."""
        commands = self._session.commands_issued - self._begin[0]
        skipped = folding.skipped_commands if isinstance(folding, GridFolding) else 0
        closed = self._n_closed - self._begin[1]
        self._launches += 1
        self._commands += commands
        self._closed_commands += closed
        self._skipped_commands += skipped
        if isinstance(folding, GridFolding):
            self.programs = self.programs[0] + folding.checked, self.programs[1] + folding.skipped
        why = folding.why_not if isinstance(folding, GridFolding) else folding
        by_event = commands - skipped - closed
        if why is not None and (why is not NO_LOOP or by_event >= _MANY * launch.total):
            what = PROGRAMS if isinstance(launch, GridLaunch) else TURNS
            name = getattr(kernel, "__name__", type(kernel).__name__)
            self._reasons.note(what, name, why, by_event)

    def so_far(self) -> SimulatedWork:
        """What was done in the launches so far."""
        folder, repeats = self._folder, self._repeats
        by_event = (*self._reasons.found, *(() if folder is None else folder.by_event))
        return SimulatedWork(
            launches=self._launches,
            repeated_launches=0 if repeats is None else repeats.n_repeated,
            foreseen_launches=0 if repeats is None else repeats.n_foreseen,
            commands=self._commands,
            closed_commands=self._closed_commands,
            skipped_commands=self._skipped_commands,
            skipped_programs=self.programs[1],
            skipped_tiles=0 if folder is None else folder.skipped,
            events=self._session.clock.n_scheduled,
            by_event=tuple(sorted(by_event, key=lambda each: -each.commands)),
        )

    @property
    def _n_closed(self) -> int:
        return 0 if self._closed is None else self._closed.n_closed


def why_nothing_folds(exact: Exactness, folds: bool, is_foreseen: bool, told: Sequence[str]) -> WhyNot:
    """Why an engine skips no part of a run: *exact* and *folds* as it was made with, whether its fabric *is_foreseen*,
    and what observers are *told*."""
    if exact == "events":
        return WhyNot("`exact` is `events`", "simulate with `exact` as `closed`")
    if not folds:
        return WhyNot("the engine was made with `folds=False`", "make it with `folds=True`")
    if not is_foreseen:
        return WhyNot("links of the chip decide who goes first when requests wait", "take a chip without such links")
    hears = " and ".join([_HEARS.get(name, name) for name in told])
    change = "keep the op log" if list(told) == ["on_issue"] else "leave the observer out"
    return WhyNot(f"an observer is told of {hears}", change)
