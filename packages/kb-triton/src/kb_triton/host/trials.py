"""Trials: the launches that an autotuner has timed, so that an equal launch is not simulated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kb_messages import KbError
from kb_triton.host.launches import Grid, LaunchedFunction


class _Launch(NamedTuple):
    function: LaunchedFunction
    grid: Grid
    arguments: Mapping[str, Any]

    def is_equal(self, other: _Launch) -> bool:
        """Whether the two launches take the same time: the same function, grid, arrays and values."""
        if self.function is not other.function or self.grid != other.grid:
            return False
        return _is_same(tuple(self.arguments.items()), tuple(other.arguments.items()))


class Trials:
    """The launches of one tuning and the picoseconds of each one, or the error that ended it.

    The chip is in the same state before each trial, and a trial changes no array. So equal launches take equal times.
    """

    def __init__(self) -> None:
        self._launches: list[_Launch] = []
        self._found: list[int | KbError] = []
        self._numbers: list[int] = []

    def time_ps(
        self, simulate: Callable[[], int], function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]
    ) -> int:
        """Returns the picoseconds of a launch of *function*: those of an equal launch, else of *simulate*.

        Raises the errors of *simulate*, for an equal launch too.
        """
        launch = _Launch(function, grid, arguments)
        number = next((at for at, known in enumerate(self._launches) if known.is_equal(launch)), None)
        if number is None:
            number = len(self._launches)
            found: int | KbError
            try:
                found = simulate()
            except KbError as error:
                found = error
            self._launches.append(launch)
            self._found.append(found)
        self._numbers.append(number)
        known = self._found[number]
        if isinstance(known, KbError):
            raise known
        return known

    def taken(self) -> tuple[int, ...]:
        """Returns the numbers of the launches since the last call. Equal launches have the same number."""
        numbers, self._numbers = tuple(self._numbers), []
        return numbers


def _is_same(one: Any, other: Any) -> bool:
    """Whether a kernel sees no difference: equal numbers and texts of one type, else the same object."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if type(one) is float:
        return one.hex() == float.hex(other)  # 0.0 equals -0.0, and a kernel sees the difference
    return type(one) in (bool, int, str) and bool(one == other)
