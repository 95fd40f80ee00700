"""PlaceUsed: the bytes of memory that a command of a template uses, for many programs at once.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from kb_engine.fastforward.replay.placeholders import Numbers
from kb_engine.fastforward.replay.template import Template
from kb_engine.launch.grid_launch import ProgramRun
from kb_engine.program.values.symbols import Ints
from kb_messages import Rectangle, accesses_of, overlaps


class _Given(int):
    """An address that a program is given, with any offset."""

    def __add__(self, _: int) -> _Given:
        return self


class PlaceUsed(NamedTuple):
    """The bytes that one command reads or writes: for each of several programs, `shape` at one of the `bases`.

    A single number stands for a base that all programs share.
    """

    bases: Ints | int
    shape: Rectangle
    writes: bool

    def at(self, which: int) -> Rectangle:
        """Returns the bytes of program number *which*."""
        base, shape = self.bases, self.shape
        base = base if isinstance(base, int) else int(base[which])
        return Rectangle(base, shape.rows, shape.row_nbytes, shape.stride)

    def n_with_equal_overlap(self, other: PlaceUsed) -> int | None:
        """Returns how many programs, from the first one on, overlap the *other* place just as the first one does.

        None stands for all programs.
        """
        distances = other.bases - self.bases
        if isinstance(distances, int):
            return None
        meets = overlaps(self.at(0), other.at(0))
        is_like = distances == distances[0]
        if not meets:
            is_like |= (distances >= self.shape.end) | (-distances >= other.shape.end)
        for which in np.flatnonzero(~is_like).tolist():
            if overlaps(self.at(which), other.at(which)) != meets:
                return int(which)
        return None


def places_used(template: Template, rows: Ints) -> list[PlaceUsed]:
    """Returns the places that the commands of the programs in *rows* of the table of *template* use.

    Bytes that programs are given, in TCM and in registers, are left out. No other program has them, and programs a
    period later are given the same bytes.
    """
    columns = cast(Numbers, list(template.table[rows].T))  # commands are made for all programs at once
    found = []
    for issue in template.issues:
        reads, writes = accesses_of(issue.submission.command(columns, [_Given()] * template.n_given))
        for writes_it, rectangles in ((False, reads), (True, writes)):
            for each in rectangles:
                if type(each.base) is not _Given:
                    shape = Rectangle(0, each.rows, each.row_nbytes, each.stride)
                    found.append(PlaceUsed(each.base, shape, writes_it))
    return found


PlacesOf = Callable[[Sequence[int]], list[PlaceUsed]]
"""Returns the places that programs of one template use, by their numbers."""


def periods_with_equal_conflicts(runs: Sequence[ProgramRun], places_of: PlacesOf, by: int, n: int) -> int:
    """Returns for how many of the next *n* periods, of *by* programs each, the programs of *runs* conflict equally.

    Commands wait for commands that use the same bytes, and programs of a later period use other bytes. So commands that
    may be in flight together are compared in all periods. *runs* has the programs of a period and the programs that ran
    when it began, in the order in which each PE began them.
    """
    used: dict[int, tuple[list[PlaceUsed], list[PlaceUsed]]] = {}
    n_equal = n
    for pair in _overlapping(runs):
        for number in pair:
            if number not in used:
                places = places_of(range(number, number + (n + 1) * by, by))
                used[number] = places, [each for each in places if each.writes]
        earlier, later = used[pair[0]], used[pair[1]]
        for writes, places in ((earlier[1], later[0]), (later[1], earlier[0])):
            for written in writes:
                others = [written.n_with_equal_overlap(each) for each in places]
                n_equal = min([n_equal, *[other - 1 for other in others if other is not None]])
    return n_equal


def _overlapping(runs: Sequence[ProgramRun]) -> Iterator[tuple[int, int]]:
    """Yields pairs of programs of one PE whose commands may be in flight together, each with itself too."""
    by_pe: dict[str, list[ProgramRun]] = defaultdict(list)
    for later in runs:
        mine = by_pe[later.pe_id]
        mine.append(later)
        for earlier in mine:
            if earlier is later or earlier.end_ps < 0 or earlier.end_ps >= later.start_ps:
                yield earlier.number, later.number
