"""Errors that a user can act on: `where: got X, needs Y; how to fix`."""

from __future__ import annotations


class KbError(Exception):
    """The root of all errors about bad input and impossible runs.

    The arguments are positional, because SimPy rebuilds an exception as `type(e)(*e.args)`. `__str__` builds the text,
    so the arguments are still there afterwards.
    """

    exit_code = 2

    def __init__(self, where: str, got: str, needs: str, fix: str = "") -> None:
        super().__init__(where, got, needs, fix)
        self.where = where
        self.got = got
        self.needs = needs
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.where}: got {self.got}, needs {self.needs}"
        return f"{text}; {self.fix}" if self.fix else text


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
    """No event is left, but work is not done."""

    exit_code = 3
