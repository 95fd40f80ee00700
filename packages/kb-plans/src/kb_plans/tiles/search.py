"""The search for the tile with the shortest estimate."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import product

from kb_messages import PipelinePlan, TileShape
from kb_plans.tiles.room import TileRoom
from kb_plans.tiles.tile_times import TileCosts, TileTimes
from kb_plans.tiles.tile_walk import TileWalk

_SMALLEST, _LARGEST = 32, 1024
_MOST_PARTS = 8
_MOST_BEGINS = 3

_STEPS = tuple(
    step
    for step in product((-2, -1, 0, 1, 2), repeat=3)
    if step.count(0) == 2 or (step.count(0) == 1 and min(step) < 0 < max(step))
)

_Place = tuple[int, int, int]
_Rank = tuple[float, int]


def sides_of(total: int) -> list[int]:
    """The sides to try along *total* elements, in order: powers of two, three times such powers, and equal parts.

    Parts of less than 32 and of more than 1024 are left out, except the whole of a short side.
    """
    powers = [factor << exponent for exponent in range(4, 11) for factor in (2, 3)]
    parts = [-(-total // count) for count in range(1, _MOST_PARTS + 1)]
    kept = {each for each in (*powers, *parts) if _SMALLEST <= each <= min(total, _LARGEST)}
    return sorted(kept or {total})


class Search:
    """Searches for the best tile among all tiles whose sides are *sides* along M, N and K.

    *plan* gives the plan of a tile. Each tile is estimated at most once.
    """

    def __init__(
        self,
        plan: Callable[[TileShape], PipelinePlan],
        room: TileRoom,
        costs: TileCosts,
        sides: tuple[list[int], list[int], list[int]],
    ) -> None:
        self._plan, self._room, self._costs, self._sides = plan, room, costs, sides
        self._plans: dict[_Place, PipelinePlan] = {}
        self._times: dict[_Place, TileTimes] = {}
        self._least: dict[_Place, float] = {}
        self._known: dict[_Place, _Rank] = {}
        self._best_ps = math.inf

    def best(self) -> TileShape | None:
        """The best tile that the search finds, or None where no tile of these sides fits.

        For every power of two along M and N the search begins with the deepest tile of which the PE holds two, and with
        one of half that depth. From the best three of these it goes to the best neighbour as long as that is better.
        """
        begins = [(m, n, k) for m, n in self._coarse() for k in self._depths(m, n)]
        self._best_of(begins)
        place = self._best_of([self._down(begin) for begin in sorted(begins, key=self._rank)[:_MOST_BEGINS]])
        return self._tile(place) if self._rank(place)[0] < math.inf else None

    def _down(self, place: _Place) -> _Place:
        """The place where a search from *place* ends that goes to the best neighbour as long as that is better."""
        while True:
            best = self._best_of([place, *self._near(place)])
            if best == place:
                return place
            place = best

    def _best_of(self, places: list[_Place]) -> _Place:
        """The best of *places*, and of equal places the first.

        The place that promises most is estimated first, because its estimate rules out other places.
        """
        for place in sorted(places, key=self._least_ps):
            self._rank(place)
        return min(places, key=self._rank)

    def _coarse(self) -> Iterator[tuple[int, int]]:
        """The powers of two along M and N, and the longest sides."""
        m_sides, n_sides, _ = self._sides
        for m, n in product(range(len(m_sides)), range(len(n_sides))):
            if _is_coarse(m_sides, m) and _is_coarse(n_sides, n):
                yield m, n

    def _depths(self, m: int, n: int) -> tuple[int, int]:
        deepest = self._deepest(m, n)
        sides = self._sides[2]
        return deepest, max(0, bisect_right(sides, -(-sides[deepest] // 2)) - 1)

    def _deepest(self, m: int, n: int) -> int:
        """The index of the deepest side along K at which two tiles overlap, 0 where there is none."""
        least, end = 0, len(self._sides[2])
        while least + 1 < end:
            middle = (least + end) // 2
            if self._overlaps(self._plan_at((m, n, middle))):
                least = middle
            else:
                end = middle
        return least

    def _overlaps(self, plan: PipelinePlan) -> bool:
        needs, room = plan.buffers, self._room
        registers = 2 * needs.register_nbytes + needs.accumulator_nbytes
        return (
            room.holds(needs, 1)
            and needs.panel_nbytes + 2 * needs.input_nbytes <= room.input_nbytes
            and registers <= room.register_nbytes
        )

    def _near(self, place: _Place) -> Iterator[_Place]:
        """The places up to two steps away along a side, and the places one step up along a side and down another."""
        for step in _STEPS:
            near = place[0] + step[0], place[1] + step[1], place[2] + step[2]
            if all(0 <= at < len(sides) for at, sides in zip(near, self._sides, strict=True)):
                yield near

    def _tile(self, place: _Place) -> TileShape:
        return TileShape(*(sides[at] for at, sides in zip(place, self._sides, strict=True)))

    def _plan_at(self, place: _Place) -> PipelinePlan:
        plan = self._plans.get(place)
        if plan is None:
            plan = self._plans[place] = self._plan(self._tile(place))
        return plan

    def _least_ps(self, place: _Place) -> float:
        """A lower bound of the time of the tile at *place*; infinity where the tile does not fit."""
        least_ps = self._least.get(place)
        if least_ps is None:
            plan = self._plan_at(place)
            least_ps = math.inf
            if self._room.holds(plan.buffers, 1):
                times = self._times[place] = TileTimes(plan, self._costs)
                least_ps = times.least_ps()
            self._least[place] = least_ps
        return least_ps

    def _rank(self, place: _Place) -> _Rank:
        """The estimate of the tile at *place*.

        Infinity where the tile does not fit or cannot be the best one so far.
        """
        rank = self._known.get(place)
        if rank is None:
            rank = math.inf, 0
            if self._least_ps(place) <= self._best_ps and place in self._times:
                times = self._times[place]
                rank = TileWalk(times, self._room).latency_ps(), times.plan.n_tiles
            self._known[place] = rank
            self._best_ps = min(self._best_ps, rank[0])
        return rank


def _is_coarse(sides: list[int], at: int) -> bool:
    side = sides[at]
    return side & (side - 1) == 0 or at == len(sides) - 1
