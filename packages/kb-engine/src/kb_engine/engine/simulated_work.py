"""SimulatedWork: how much of a simulation was isolated or skipped, and why the rest was simulated event by event.

Design: docs/design/fast-forward.md
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kb_engine.engine.strategies import FastForward, Skipped
from kb_engine.observe.slow_path import COMMANDS, NO_REMEDY, SkipRefusal, SlowPathCount, SlowPathReasons, in_order
from kb_engine.program.session import Session

PROGRAMS: Final = "programs of a grid"
WAITING: Final = "programs that wait for each other"
_MESSAGES: Final = SkipRefusal("its programs send messages", NO_REMEDY)


class SimulatedWork(Struct, frozen=True, kw_only=True):
    """Counts how the launches that have ended were simulated, since the engine was made.

    Of `commands`, `isolated_commands` were simulated apart or took a cached result, and `skipped_commands` belong to
    the `skipped_programs` of grids. The others were simulated event by event, except `skipped_tiles` of their tiles.
    `events` counts the entries of the clock. `slow_path` lists regular work that was not isolated or skipped, with the
    reason, the most commands first. A reason of a grid counts all commands of its launch that were simulated event by
    event, without the first command of each kind. Commands that are large enough to be isolated, and commands of many
    tiles, are counted once more by reasons of their own. `skipped_tiles`, `events` and `slow_path` include a launch
    that goes on or has failed.
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


class WorkCounter:
    """Counts the launches of *session* that have ended, and their commands.

    *wing* skips work; None where every event is simulated, because of *why_all*. *reasons* collects the reasons.
    """

    def __init__(
        self, session: Session, wing: FastForward | None, why_all: SkipRefusal, reasons: SlowPathReasons
    ) -> None:
        self._session = session
        self._wing = wing
        self._why_all = why_all
        self._reasons = reasons
        self._launches = self._commands = 0
        self._ended = Skipped()
        self._begin: tuple[int, Skipped, int] = 0, Skipped(), 0

    def begins(self) -> None:
        """Notes that a launch is called now."""
        self._begin = self._session.commands_issued, self._skipped, self._reasons.n_firsts

    def ended(self, kernel: Any, refusal: SkipRefusal | None, sends: bool) -> None:
        """Counts an ended launch of *kernel*. *refusal* says why no program was skipped, if that is known.

        *sends* says that its programs wait for each other.
        """
        issued, before, n_firsts = self._begin
        now = self._ended = self._skipped
        commands = self._session.commands_issued - issued
        self._launches += 1
        self._commands += commands
        what, why = (WAITING, _MESSAGES) if sends and self._wing is not None else (PROGRAMS, refusal)
        if why is not None:
            isolated = now.isolated_commands - before.isolated_commands
            name = getattr(kernel, "__name__", type(kernel).__name__)
            self._reasons.note(what, name, why, commands - isolated - (self._reasons.n_firsts - n_firsts))
        if self._wing is None:
            self._reasons.note(COMMANDS, "", self._why_all, commands)

    def so_far(self) -> SimulatedWork:
        """Returns the counts so far."""
        ended, now = self._ended, self._skipped
        return SimulatedWork(
            launches=self._launches,
            commands=self._commands,
            isolated_commands=ended.isolated_commands,
            skipped_commands=ended.skipped_commands,
            skipped_programs=ended.skipped_programs,
            skipped_tiles=now.skipped_tiles,
            events=self._session.clock.n_scheduled,
            slow_path=tuple(in_order((*self._reasons.found, *now.slow_path))),
        )

    @property
    def _skipped(self) -> Skipped:
        return Skipped() if self._wing is None else self._wing.skipped()
