"""EventWork: what of a simulation was closed, skipped or repeated, and why the rest was simulated event by event."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kb_engine.closed.closed_commands import ClosedCommands
from kb_engine.fold.folder import Folder
from kb_engine.launch.grid_folding import GridFolding
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.launch.launch import Launch
from kb_engine.launch.loop_launch import LoopLaunch
from kb_engine.launch.repeats import LaunchRepeats, RepeatedLaunch
from kb_engine.observe.by_event import LAUNCHES, NO_REMEDY, ByEvent, Reasons, WhyNot, in_order
from kb_engine.program.session import Session
from kb_engine.template import NO_LOOP

TURNS, PROGRAMS = "turns of a loop", "programs of a grid"
_MANY: Final = 64
"""Commands of a program from which on it is said that a kernel has no loop of its own. Source: assumed."""
_MOST_KERNELS: Final = 1 << 10
"""Kernels of which is known that they were launched. Source: assumed."""
_OF_GRID: Final = WhyNot("launches of a grid are not repeated", NO_REMEDY)
_OF_LOOP: Final = WhyNot(
    "launches of kernels with a loop that may be folded are not repeated",
    "nothing: turns of the loop are skipped instead",
)


class SimulatedWork(Struct, frozen=True, kw_only=True):
    """How the launches that have ended were simulated, since the engine was made. `skipped_tiles`, `events` and
    `by_event` also have what a launch has done that goes on or has failed.

    Of `commands`, `closed_commands` were worked out at once, and `skipped_commands` are those of `skipped_programs` of
    grids and turns of loops; the others were simulated event by event, but for `skipped_tiles` of them. Of `launches`,
    `repeated_launches` did as an earlier one did, and of `foreseen_launches` one program of each kind ran. `events` are
    the entries of the clock. `by_event` has what could have been closed or skipped and was not, and why, the most
    commands first. Reasons of loops and grids count all commands of their launch that were simulated event by event,
    without those that were the first of their kind. Reasons of commands that are worth closing, of commands that have
    many tiles, and of launches count each of them once more. A launch has a reason if its kernel was launched before.
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
        self.programs = 0, 0
        self._begin = 0, 0, 0
        self._launched: set[object] = set()

    def begins(self) -> None:
        """A launch is called now."""
        self._begin = self._session.commands_issued, self._n_closed, self._reasons.n_firsts

    def ended(
        self, kernel: Any, launch: Launch, folding: GridFolding | WhyNot | None, why_no_repeats: WhyNot | None
    ) -> None:
        """A *launch* of *kernel* has ended. *folding* folded it, or says why nothing could; None where nothing was to
        be folded. *why_no_repeats* is why no launch is ever repeated; None where some are."""
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
        name = getattr(kernel, "__name__", type(kernel).__name__)
        if why is not None and (why is not NO_LOOP or by_event >= _MANY * launch.total):
            what = PROGRAMS if isinstance(launch, GridLaunch) else TURNS
            self._reasons.note(what, name, why, by_event - (self._reasons.n_firsts - self._begin[2]))
        if not isinstance(launch, RepeatedLaunch) and self._was_launched(getattr(kernel, "__code__", name)):
            self._reasons.note(LAUNCHES, name, self._why_anew(launch, why_no_repeats), by_event, 1)

    def _was_launched(self, kernel: object) -> bool:
        """Whether there was a launch of *kernel* before. Now there is one."""
        if kernel in self._launched:
            return True
        if len(self._launched) >= _MOST_KERNELS:
            self._launched.clear()
        self._launched.add(kernel)
        return False

    def _why_anew(self, launch: Launch, why_no_repeats: WhyNot | None) -> WhyNot:
        if isinstance(launch, (GridLaunch, LoopLaunch)):
            return _OF_GRID if isinstance(launch, GridLaunch) else _OF_LOOP
        if self._repeats is None:
            assert why_no_repeats is not None
            return why_no_repeats
        return self._repeats.why_not

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
            by_event=tuple(in_order(by_event)),
        )

    @property
    def _n_closed(self) -> int:
        return 0 if self._closed is None else self._closed.n_closed
