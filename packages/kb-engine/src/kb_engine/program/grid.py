"""Grid: the programs of a launch, numbered along up to three axes; and Program, one of them."""

from __future__ import annotations

from operator import index
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct

from kb_messages import KernelError

Schedule: TypeAlias = Literal["dynamic", "static"]
"""The order of programs on PEs: `dynamic` gives the next program to the PE that is free first, `static` gives PE p of P
the programs p, p + P, ..."""


class Grid(Struct, frozen=True):
    """The programs of a launch: `sizes` are their numbers along axes 0, 1 and 2. Axis 0 varies fastest."""

    sizes: tuple[int, int, int]
    schedule: Schedule

    @property
    def n_programs(self) -> int:
        """The number of programs."""
        return self.sizes[0] * self.sizes[1] * self.sizes[2]

    def ids(self, number: int) -> tuple[int, int, int]:
        """The ids, along the axes, of program *number*."""
        rest, first = divmod(number, self.sizes[0])
        return first, rest % self.sizes[1], rest // self.sizes[1]


class Program(NamedTuple):
    """Program `number` of the `n_programs` programs of a launch. `grid` is None where each PE has one program."""

    number: int
    n_programs: int
    grid: Grid | None = None

    def on(self, pe_id: str) -> str:
        """The name of the program on a PE in errors and reports: the PE alone where each PE has one program."""
        if self.grid is None:
            return pe_id
        _, *others = self.grid.sizes
        name = f"{self.number}" if others == [1, 1] else f"{self.grid.ids(self.number)}"
        return f"program {name} on {pe_id}"


def grid_of(grid: object, schedule: str) -> Grid | None:
    """The `grid` of a launch: None, a number of programs, or up to three numbers.

    Raises KernelError for another grid, for a number below 1, for an unknown *schedule*, and for a *schedule* without a
    grid.
    """
    if schedule not in get_args(Schedule):
        raise KernelError("launch", f"schedule={schedule!r}", " or ".join(map(repr, get_args(Schedule))))
    if grid is None:
        if schedule != "dynamic":
            raise KernelError("launch", f"schedule={schedule!r} without a grid", "a grid, whose programs it spreads")
        return None
    sizes = _sizes(grid)
    if not (1 <= len(sizes) <= 3 and min(sizes) >= 1):
        raise KernelError("launch", f"grid={grid!r}", "a number of programs, or one to three numbers, each at least 1")
    return Grid((*sizes, 1, 1)[:3], schedule)  # type: ignore[arg-type]  # both are checked above


def _sizes(grid: object) -> tuple[int, ...]:
    try:
        return tuple(map(index, grid)) if isinstance(grid, (tuple, list)) else (index(grid),)  # type: ignore[arg-type]
    except TypeError:
        return ()
