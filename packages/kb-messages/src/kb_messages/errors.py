"""Errors a user can act on: `where: got X, needs Y; how to fix`."""

from __future__ import annotations


class KbError(Exception):
    """Root of every error kernbench raises for bad input or an impossible run.

    The arguments are positional because SimPy rebuilds an exception as `type(e)(*e.args)`; the text is built in
    `__str__` so that they survive the trip.
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
    """A command that no legal plan exists for."""


class TopologyError(KbError):
    """A topology that cannot be read, checked or built."""


class LogError(KbError):
    """An op log that is damaged, incomplete, or that asks for something no memory holds."""


class KernelError(KbError):
    """A kernel that misuses `tl`, or raised."""


class BenchmarkError(KbError):
    """A benchmark file or parameter that cannot be used."""


class SimulationStuckError(KbError):
    """The event queue drained while work was outstanding."""

    exit_code = 3
