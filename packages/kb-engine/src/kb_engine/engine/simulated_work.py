"""EventWork: what of a simulation was closed, skipped or repeated, and why the rest was simulated event by event."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kb_engine.fastforward.isolated.isolated_commands import IsolatedCommands
from kb_engine.fastforward.steady_state.command_skipper import CommandSkipper
from kb_engine.fastforward.steady_state.program_skipper import ProgramSkipper
from kb_engine.launch.launch import Launch
from kb_engine.observe.slow_path import SkipRefusal, SlowPathCount, SlowPathReasons, in_order
from kb_engine.program.session import Session

PROGRAMS: Final = "programs of a grid"


class SimulatedWork(Struct, frozen=True, kw_only=True):
    """How the launches that have ended were simulated, since the engine was made. `skipped_tiles`, `events` and
    `slow_path` also have what a launch has done that goes on or has failed.

    Of `commands`, `isolated_commands` were worked out at once, and `skipped_commands` are those of `skipped_programs`
    of grids; the others were simulated event by event, but for `skipped_tiles` of them. `events` are the entries of the
    clock. `slow_path` has what could have been closed or skipped and was not, and why, the most commands first.
    SlowPathReasons of grids count all commands of their launch that were simulated event by event, without those that
    were the first of their kind. Reasons of commands that are worth closing, and of commands that have many tiles,
    count each of them once more.
    """

    launches: int
    commands: int
    isolated_commands: int
    skipped_commands: int
    skipped_programs: int
    skipped_tiles: int
    events: int
    slow_path: tuple[SlowPathCount, ...]

    @property
    def event_commands(self) -> int:
        """The commands that were simulated event by event."""
        return self.commands - self.isolated_commands - self.skipped_commands


class EventWork:
    """Adds up launches of *session*. *reasons* has those that were found so far.

    `programs` are the numbers of those that were compared and of those that were skipped.
    """

    def __init__(
        self,
        session: Session,
        closed: IsolatedCommands | None,
        folder: CommandSkipper | None,
        reasons: SlowPathReasons,
    ) -> None:
        self._session = session
        self._closed = closed
        self._folder = folder
        self._reasons = reasons
        self._launches = self._commands = self._closed_commands = self._skipped_commands = 0
        self.programs = 0, 0
        self._begin = 0, 0, 0

    def begins(self) -> None:
        """A launch is called now."""
        self._begin = self._session.commands_issued, self._n_closed, self._reasons.n_firsts

    def ended(self, kernel: Any, launch: Launch, folding: ProgramSkipper | SkipRefusal | None) -> None:
        """A *launch* of *kernel* has ended. *folding* folded it, or says why nothing could; None where nothing was to
        be folded."""
        commands = self._session.commands_issued - self._begin[0]
        skipped = folding.skipped_commands if isinstance(folding, ProgramSkipper) else 0
        closed = self._n_closed - self._begin[1]
        self._launches += 1
        self._commands += commands
        self._closed_commands += closed
        self._skipped_commands += skipped
        if isinstance(folding, ProgramSkipper):
            self.programs = self.programs[0] + folding.checked, self.programs[1] + folding.skipped
        why = folding.why_not if isinstance(folding, ProgramSkipper) else folding
        slow_path = commands - skipped - closed
        name = getattr(kernel, "__name__", type(kernel).__name__)
        if why is not None:
            self._reasons.note(PROGRAMS, name, why, slow_path - (self._reasons.n_firsts - self._begin[2]))

    def so_far(self) -> SimulatedWork:
        """What was done in the launches so far."""
        folder = self._folder
        slow_path = (*self._reasons.found, *(() if folder is None else folder.slow_path))
        return SimulatedWork(
            launches=self._launches,
            commands=self._commands,
            isolated_commands=self._closed_commands,
            skipped_commands=self._skipped_commands,
            skipped_programs=self.programs[1],
            skipped_tiles=0 if folder is None else folder.skipped,
            events=self._session.clock.n_scheduled,
            slow_path=tuple(in_order(slow_path)),
        )

    @property
    def _n_closed(self) -> int:
        return 0 if self._closed is None else self._closed.n_closed
