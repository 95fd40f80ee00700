"""StateVisitor: how the parts of a simulation say in what state they are, and move on by whole periods.

Every part that changes while tiles are worked on has one method, `visit_state(over)`, that hands each of its attributes to
*over* and takes the answer as the new value:

    def visit_state(self, over: StateVisitor) -> None:
        self.free_ps = over.deadline(self.free_ps)
        self.busy_ps = over.count(self.busy_ps)
        over.same(self.row)

One pass only looks: it writes down all values relative to now and to the next tile. Another pass moves the part on by
some periods. So what is compared and what is moved cannot differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Protocol

from kb_dataexec.log.compressed import SlotRing
from kb_messages import Place


class NotPeriodic(Exception):
    """Something is in the simulation of which nobody can say how it goes on, but by simulating it."""


class HasState(Protocol):
    """What has a `visit_state`."""

    def visit_state(self, over: StateVisitor) -> None:
        """Hand every attribute that changes to *over*."""


class StateVisitor(ABC):
    """One pass over the state of a simulation, between two of its events."""

    @abstractmethod
    def moment(self, t_ps: int) -> int:
        """A moment that matters wherever it lies, such as the begin of a service."""

    @abstractmethod
    def deadline(self, t_ps: int) -> int:
        """A moment that matters while it is ahead: to be free at or before now is to be free."""

    @abstractmethod
    def count(self, count: int) -> int:
        """A number that grows by what is done, and on which nothing depends."""

    @abstractmethod
    def same(self, *values: object) -> None:
        """Values that have to be equal a period later, and stay as they are."""

    @abstractmethod
    def identical(self, *objects: object) -> None:
        """Objects that have to be these very ones a period later. A pass that looks keeps the objects alive."""

    @abstractmethod
    def op(self, op_id: int) -> int:
        """An op of the command, or one before it, or -1 for none."""

    @abstractmethod
    def tiles_to_go(self, count: int) -> int:
        """The number of tiles of the command that are not done."""

    @abstractmethod
    def token(self, token: Any) -> None:
        """A TileToken, which is visited where it is met first, or None."""

    @abstractmethod
    def part(self, part: HasState) -> None:
        """A part that several others hold. It is visited where it is met first."""

    @abstractmethod
    def call(self, function: Callable[..., Any]) -> None:
        """A function that will be called: a method of a part that stays. Raises NotPeriodic for any other."""

    @abstractmethod
    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """The offset of a piece that lies in one of *slots*, or elsewhere."""

    @abstractmethod
    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Bytes that are claimed, by their offset. Each claim lies in a slot of one of *rings*, or elsewhere."""

    @abstractmethod
    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """The pieces of the command that lie in no slot. With them, periods are such that slots come round, too."""

    def seq(self, command_seq: int) -> int:
        """The number of a command, or -1 for none."""
        raise NotPeriodic

    def program(self, number: int) -> int:
        """The number of a program of a grid."""
        raise NotPeriodic

    def issued(self, command: Any) -> tuple[Any, Any]:
        """What was submitted as *command*, a CommandInFlight of a program, and its addresses."""
        raise NotPeriodic

    def ring(self, last: Any, pieces: int, pe_id: str) -> Any:
        """A cut of a ring of the registers of *pe_id*, of which *pieces* were to be taken. Its slots are alike."""
        raise NotPeriodic

    def unlike(self, count: int) -> None:
        """How often it mattered so far where slots lie, in one region."""
        raise NotPeriodic

    @property
    @abstractmethod
    def command(self) -> Any:
        """The CommandInFlight whose tiles are folded. None where the programs of a grid are."""

    @property
    @abstractmethod
    def next_tile(self) -> int:
        """The tile of the command that is made next. A pass that moves parts on gives the one after the jump."""

    @property
    @abstractmethod
    def jumps(self) -> bool:
        """Whether the pass moves parts on."""


NO_MOMENT: Final = -1
"""What stands where there is no moment."""


def moment_or_none(over: StateVisitor, t_ps: int) -> int:
    """`over.moment(t_ps)`, or NO_MOMENT where that stands."""
    if t_ps == NO_MOMENT:
        over.same(None)
        return t_ps
    return over.moment(t_ps)
