"""What a scheduler and whoever closes its commands say to each other.

A command is closed from the moment at which nothing can meet it: its PE is idle otherwise, and its program waits for
it. Then it runs at once on a clock of its own, or takes what an equal command came to
(`kb_engine.fastforward.isolated`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from kb_engine.block.in_flight import CommandInFlight


class IsolableWork(Protocol):
    """A command that a scheduler could begin now, and what its PE keeps of it. A class that derives from it has all
    methods: without one of them, no command could be made."""

    __slots__ = ()

    command: CommandInFlight

    @abstractmethod
    def begin(self) -> None:
        """Begin now. A command that has begun before, apart from the rest, begins anew."""

    @abstractmethod
    def place(self) -> None:
        """Cut buffers and registers for the command now, as `begin` does, without beginning."""

    @abstractmethod
    def cuts(self) -> Any:
        """What `put_back` needs to undo `begin` and `place`."""

    @abstractmethod
    def put_back(self, cuts: Any) -> None:
        """Be as before `begin` or `place`, when *cuts* were asked for. The command is not in flight in any block."""

    @abstractmethod
    def end(self) -> None:
        """The command is done now, and no block knows that."""


class Isolation(Protocol):
    """Who closes the commands of a PE. A scheduler asks once of each command, by `wants` or by `missed`."""

    def wants(self, command: CommandInFlight) -> bool:
        """Whether *command*, which is alone on its PE, may be closed. If not, the caller has to begin it."""

    def missed(self, command: CommandInFlight) -> None:
        """*command* is not alone on its PE."""

    def isolate(self, work: IsolableWork) -> bool:
        """Whether *work*, of a command that is wanted, is closed from now on: `end` is called when it is done. If not,
        the caller has to begin it."""
