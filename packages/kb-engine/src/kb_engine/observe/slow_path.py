"""Slow path: the reasons why regular work was simulated event by event, collected in one place.

Design: docs/design/fast-forward.md
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_MOST_REASONS: Final = 1 << 10
"""Reasons that are kept. Source: assumed; a run has some per kernel."""
NO_REMEDY: Final = "nothing: no change of the kernel or of its launch avoids it"
"""The remedy where nothing is known that helps."""
COMMANDS: Final = "commands"


class SkipRefusal(NamedTuple):
    """A reason why something regular was not skipped.

    `cause` is a clause such as "the kernel prints". `change` is the remedy, in the imperative; `NO_REMEDY` where
    nothing is known that helps. `line` is the kernel's line as `file:line`, or "".
    """

    cause: str
    change: str
    line: str = ""


class SlowPathCount(NamedTuple):
    """Work that was simulated event by event for the reason `why`.

    `what` names the work, such as "programs of a grid" of a `kernel`, and `commands` counts its commands that were
    neither isolated nor skipped.
    """

    what: str
    kernel: str
    why: SkipRefusal
    commands: int


class SlowPathReasons:
    """Adds up, by reason, the commands that were simulated event by event.

    `n_firsts` counts the commands that had to be simulated so that the results of others of their kind are known.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, SkipRefusal], int] = {}
        self.n_firsts = 0

    def note(self, what: str, kernel: str, why: SkipRefusal, commands: int) -> None:
        """Adds *commands* of *what* in *kernel* that were simulated event by event because of *why*."""
        key = what, kernel, why
        if commands and (key in self._counts or len(self._counts) < _MOST_REASONS):
            self._counts[key] = self._counts.get(key, 0) + commands

    def first(self) -> None:
        """Counts a command that is simulated so that the results of others of its kind are known."""
        self.n_firsts += 1

    @property
    def found(self) -> list[SlowPathCount]:
        """The work that was simulated event by event, in order."""
        return in_order([SlowPathCount(*key, count) for key, count in self._counts.items()])


def in_order(found: Iterable[SlowPathCount]) -> list[SlowPathCount]:
    """*found*, that with the most commands first."""
    return sorted(found, key=lambda each: (-each.commands, *each[:3]))
