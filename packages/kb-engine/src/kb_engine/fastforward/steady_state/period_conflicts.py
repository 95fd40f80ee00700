"""For how many periods a scoreboard finds the conflicts that it found in the first one.

Commands wait for those that use the same bytes, and the programs of a later period use other bytes. So the commands
that may be in flight together are compared in all periods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from kb_engine.fastforward.replay import PlaceUsed
from kb_engine.launch.grid_launch import ProgramRun

PlacesOf = Callable[[Sequence[int]], list[PlaceUsed]]
"""What programs that do the same use of memory, by their numbers."""


def periods_with_equal_conflicts(runs: Sequence[ProgramRun], places_of: PlacesOf, by: int, n: int) -> int:
    """For how many of the next *n* periods, of *by* programs each, the programs of *runs* meet as they did.

    *runs* are those of a period and those that ran when it began, each PE's in the order in which they began.
    """
    used: dict[int, tuple[list[PlaceUsed], list[PlaceUsed]]] = {}
    alike = n
    for pair in _overlapping(runs):
        for number in pair:
            if number not in used:
                places = places_of(range(number, number + (n + 1) * by, by))
                used[number] = places, [each for each in places if each.writes]
        earlier, later = used[pair[0]], used[pair[1]]
        for writes, places in ((earlier[1], later[0]), (later[1], earlier[0])):
            for written in writes:
                others = [written.n_alike(each) for each in places]
                alike = min([alike, *[other - 1 for other in others if other is not None]])
    return alike


def _overlapping(runs: Sequence[ProgramRun]) -> Iterator[tuple[int, int]]:
    """The numbers of programs of one PE whose commands may be in flight together, each with itself too."""
    by_pe: dict[str, list[ProgramRun]] = defaultdict(list)
    for later in runs:
        mine = by_pe[later.pe_id]
        mine.append(later)
        for earlier in mine:
            if earlier is later or earlier.end_ps < 0 or earlier.end_ps >= later.start_ps:
                yield earlier.number, later.number
