"""Calls of a kernel that are issued later than the kernel made them, in the order of the calls."""

from __future__ import annotations

from kb_engine.program.port import Deferring, ProgramPort
from kb_messages import Command


class DeferredCalls:
    """The `Deferring` of a program: all parts of the language that issue commands later. At most one has a
    command."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port
        self._parts: list[Deferring] = []

    def add(self, part: Deferring) -> None:
        """From now on *part* is asked before commands, waits and the end of the kernel."""
        if part not in self._parts:
            self._parts.append(part)
        self._port.deferred_calls = self

    @property
    def holds(self) -> bool:
        """As `Deferring.holds`."""
        return any(part.holds for part in self._parts)

    def issue(self) -> None:
        """Issue what is held back, because another call is to be held back now."""
        self.before(None, "")

    def before(self, command: Command | None, line: str) -> None:
        """As `Deferring.before`."""
        for part in self._parts:
            part.before(command, line)

    def end(self) -> None:
        """As `Deferring.end`."""
        for part in self._parts:
            part.end()
