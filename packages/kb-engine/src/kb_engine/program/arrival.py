"""Arrival: a command on its way from the call of a kernel into the submission queue of its PE."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.block.fold_pass import FoldPass
from kb_engine.block.in_flight import CommandInFlight


class Arrival:
    """*command*, which PE_CPU has issued at *arrival_ps*.

    *check* is called with the arrival when the command may be compared with those before it, and *enter* when the
    submission queue has room. With *resumes*, the kernel goes on when the command is in the queue.
    """

    __slots__ = ("_check", "_enter", "arrival_ps", "command", "resumes")

    def __init__(
        self,
        command: CommandInFlight,
        resumes: bool,
        arrival_ps: int,
        check: Callable[[Arrival], None],
        enter: Callable[[Arrival], None],
    ) -> None:
        self.command = command
        self.resumes = resumes
        self.arrival_ps = arrival_ps
        self._check = check
        self._enter = enter

    def fold(self, over: FoldPass) -> None:
        """As FoldPass says."""
        over.part(self.command)
        over.call(self._check)
        over.same(self.resumes)
        self.arrival_ps = over.moment(self.arrival_ps)

    def check(self, _: object = None) -> None:
        """Compare the command with those before it."""
        self._check(self)

    def enter(self) -> None:
        """The submission queue has room."""
        self._enter(self)
