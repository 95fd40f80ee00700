"""Which program of a grid a free PE takes next."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kb_engine.program.grid import Grid


class ProgramQueue(ABC):
    """The programs of a grid that no PE has taken yet, `left` of them."""

    def __init__(self, count: int) -> None:
        self.left = count

    def take(self, place: int) -> int | None:
        """The number of the next program of the PE at *place* of the launch, from now on its own; None without one."""
        number = self._next(place)
        if number is not None:
            self.left -= 1
        return number

    @abstractmethod
    def _next(self, place: int) -> int | None:
        """The number of the program that `take` returns."""


class InOrder(ProgramQueue):
    """The programs in order, to whichever PE asks."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._count = count

    def _next(self, place: int) -> int | None:
        return self._count - self.left if self.left else None


class RoundRobin(ProgramQueue):
    """PE p of P has the programs p, p + P, p + 2 P and so on."""

    def __init__(self, count: int, n_pes: int) -> None:
        super().__init__(count)
        self._of_pe = [iter(range(place, count, n_pes)) for place in range(n_pes)]

    def _next(self, place: int) -> int | None:
        return next(self._of_pe[place], None)


def queue_of(grid: Grid, n_pes: int) -> ProgramQueue:
    """The queue for the schedule of *grid* on *n_pes* PEs."""
    return InOrder(grid.n_programs) if grid.schedule == "dynamic" else RoundRobin(grid.n_programs, n_pes)
