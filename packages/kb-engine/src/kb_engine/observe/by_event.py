"""Why regular work was simulated event by event: one place to collect the reasons."""

from __future__ import annotations

from typing import Final, NamedTuple

_MOST_REASONS: Final = 1 << 10
"""Reasons that are kept. Source: assumed; a run has some per kernel."""


class WhyNot(NamedTuple):
    """A reason why something regular was not skipped.

    `cause` is a clause such as "the kernel prints", and `change` says what its author could do; "" where nothing is
    known. `line` is the kernel's line as `file:line`; "" where no line is the cause.
    """

    cause: str
    change: str = ""
    line: str = ""


class ByEvent(NamedTuple):
    """What was simulated event by event for the reason `why`: `what` names the work, such as "turns of a loop" of a
    `kernel`, and `commands` counts those that were neither closed nor skipped."""

    what: str
    kernel: str
    why: WhyNot
    commands: int


class Reasons:
    """Adds up, by reason, the commands that were simulated event by event."""

    def __init__(self) -> None:
        self._commands: dict[tuple[str, str, WhyNot], int] = {}

    def note(self, what: str, kernel: str, why: WhyNot, commands: int) -> None:
        """*commands* of *what* in *kernel* were simulated event by event because of *why*."""
        key = what, kernel, why
        if commands and (key in self._commands or len(self._commands) < _MOST_REASONS):
            self._commands[key] = self._commands.get(key, 0) + commands

    @property
    def found(self) -> list[ByEvent]:
        """What was simulated event by event, that with the most commands first."""
        found = [ByEvent(*key, commands) for key, commands in self._commands.items()]
        return sorted(found, key=lambda each: (-each.commands, each.what, each.kernel, each.why))
