"""Why regular work was simulated event by event: one place to collect the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_MOST_REASONS: Final = 1 << 10
"""Reasons that are kept. Source: assumed; a run has some per kernel."""
NO_REMEDY: Final = "nothing: no change of the kernel or of its launch avoids it"
"""What the author of a kernel could do where nothing is known that helps."""
COMMANDS: Final = "commands"


class SkipRefusal(NamedTuple):
    """A reason why something regular was not skipped.

    `cause` is a clause such as "the kernel prints". `change` says what its author could do; it is
    `NO_REMEDY` where nothing is known that helps. `line` is the kernel's line as `file:line`, or "".
    """

    cause: str
    change: str
    line: str = ""


class SlowPathCount(NamedTuple):
    """What was simulated event by event for the reason `why`: `what` names the work, such as "programs of a grid" of a
    `kernel`, and `commands` counts those that were neither closed nor skipped."""

    what: str
    kernel: str
    why: SkipRefusal
    commands: int


class SlowPathReasons:
    """Adds up, by reason, the commands that were simulated event by event.

    `n_firsts` counts the commands that had to be simulated to learn what others of their kind come to.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, SkipRefusal], int] = {}
        self.n_firsts = 0

    def note(self, what: str, kernel: str, why: SkipRefusal, commands: int) -> None:
        """Because of *why*, *commands* of *what* in *kernel* were simulated event by event."""
        key = what, kernel, why
        if commands and (key in self._counts or len(self._counts) < _MOST_REASONS):
            self._counts[key] = self._counts.get(key, 0) + commands

    def first(self) -> None:
        """A command is simulated to learn what others of its kind come to."""
        self.n_firsts += 1

    @property
    def found(self) -> list[SlowPathCount]:
        """What was simulated event by event, in order."""
        return in_order([SlowPathCount(*key, count) for key, count in self._counts.items()])


def in_order(found: Iterable[SlowPathCount]) -> list[SlowPathCount]:
    """*found*, that with the most commands first."""
    return sorted(found, key=lambda each: (-each.commands, *each[:3]))
