"""Errors that a user can act on: `where: got X, needs Y; how to fix`."""

from __future__ import annotations

from typing import Final

_MOST_CHARACTERS: Final = 4000
"""The longest part of a sentence. Source: assumed; the longest parts list twenty ranges of memory."""


class KbError(Exception):
    """The root of all errors about bad input and impossible runs.

    The arguments are positional, because SimPy rebuilds an exception as `type(e)(*e.args)`. `__str__` builds the text,
    so the arguments are still there afterwards. The text is one line that prints.
    """

    exit_code = 2

    def __init__(self, where: str, got: str, needs: str, fix: str = "") -> None:
        super().__init__(where, got, needs, fix)
        self.where = where
        self.got = got
        self.needs = needs
        self.fix = fix

    def __str__(self) -> str:
        where, got, needs, fix = map(self._shown, (self.where, self.got, self.needs, self.fix))
        text = f"{where}: got {got}, needs {needs}"
        return f"{text}; {fix}" if fix else text

    def _shown(self, part: str) -> str:
        return _one_line(part)


def _one_line(part: str) -> str:
    """*part* on one line and not too long, with escapes for unprintable characters.

    *part* may quote a file that somebody else wrote.
    """
    if len(part) > _MOST_CHARACTERS:
        part = f"{part[:_MOST_CHARACTERS]}..."
    return part if part.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in part)


class AddressError(KbError):
    """An address outside its fields or outside every memory of the topology."""


class PlanError(KbError):
    """A command that has no legal plan."""


class TopologyError(KbError):
    """A topology that cannot be read, checked or built."""


class LogError(KbError):
    """An op log that is damaged or incomplete, or that reads bytes that no memory holds."""


class KernelError(KbError):
    """A kernel that misuses `tl` or raises."""


class BenchmarkError(KbError):
    """A benchmark file or parameter that is not usable."""


class SimulationStuckError(KbError):
    """No event is left, but work is not done. The text has several lines, which list who waits for whom."""

    exit_code = 3

    def __str__(self) -> str:
        where, got, needs, fix = map(self._shown, (self.where, self.got, self.needs, self.fix))
        text = f"{where}: {got}; needs {needs}"  # *got* is a sentence, such as "8 of 8 kernels cannot go on"
        return f"{text}; {fix}" if fix else text

    def _shown(self, part: str) -> str:
        return "\n".join(map(_one_line, part.split("\n")))
