"""Why regular work was simulated event by event: one place to collect the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_MOST_REASONS: Final = 1 << 10
"""Reasons that are kept. Source: assumed; a run has some per kernel."""
NO_REMEDY: Final = "nothing: no change of the kernel or of its launch avoids it"
"""What the author of a kernel could do where nothing is known that helps."""
LAUNCHES: Final = "launches"
COMMANDS: Final = "commands"


class WhyNot(NamedTuple):
    """A reason why something regular was not skipped.

    `cause` is a clause such as "the kernel prints". `change` says what its author could do; it is
    `NO_REMEDY` where nothing is known that helps. `line` is the kernel's line as `file:line`, or "".
    """

    cause: str
    change: str
    line: str = ""


class ByEvent(NamedTuple):
    """What was simulated event by event for the reason `why`: `what` names the work, such as "turns of a loop" of a
    `kernel`, and `commands` counts those that were neither closed nor skipped. `launches` counts the launches that were
        not repeated for this reason; it is 0 for all other work."""

    what: str
    kernel: str
    why: WhyNot
    commands: int
    launches: int = 0


class Reasons:
    """Adds up, by reason, the commands that were simulated event by event, and the launches that were not repeated.

    `n_firsts` counts the commands that had to be simulated to learn what others of their kind come to.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, WhyNot], list[int]] = {}
        self.n_firsts = 0

    def note(self, what: str, kernel: str, why: WhyNot, commands: int, launches: int = 0) -> None:
        """Because of *why*, *commands* of *what* in *kernel* were simulated by event, and *launches* not repeated."""
        if not commands and not launches:
            return
        key = what, kernel, why
        counts = self._counts.get(key)
        if counts is not None:
            counts[0] += commands
            counts[1] += launches
        elif len(self._counts) < _MOST_REASONS:
            self._counts[key] = [commands, launches]

    def first(self) -> None:
        """A command is simulated to learn what others of its kind come to."""
        self.n_firsts += 1

    @property
    def found(self) -> list[ByEvent]:
        """What was simulated event by event, in order."""
        return in_order([ByEvent(*key, *counts) for key, counts in self._counts.items()])


def in_order(found: Iterable[ByEvent]) -> list[ByEvent]:
    """*found*, that with the most commands first, and launches behind what explains as many of their commands."""
    return sorted(found, key=lambda each: (-each.commands, each.what == LAUNCHES, -each.launches, *each[:3]))
