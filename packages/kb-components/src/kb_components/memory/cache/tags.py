"""The tags of a cache: the lines that it holds, the time from which it holds each, and the lines to be written back.

A line that comes in takes the place of the line that has been longest in its set (first in, first out).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Lines = npt.NDArray[np.int64]

_HASH: Final = 0x9E3779B1
"""The prime next to 2^32 over the golden ratio, the multiplier of a multiplicative hash (Knuth, vol. 3, 6.4)."""


_PAGE: Final = 1 << 14
"""Lines of a page. A memory may have many more lines than a run touches. A page of the tables takes 144 KiB.
Source: assumed."""


class LinesFound(NamedTuple):
    """The missing lines of a request, and the time at which the last of the other lines is there (0 for none)."""

    missing: Lines
    ready_ps: int


class Tags:
    """The lines of *sets* x *ways*.

    The tables have room for the pages of lines that requests touched, in that order.
    """

    def __init__(self, sets: int, ways: int, hashed: bool) -> None:
        self._sets = sets
        self._ways = ways
        self._hashed = hashed
        self._held = np.full((sets, ways), -1, np.int64)
        self._oldest = np.zeros(sets, np.int64)
        self._pages: dict[int, int] = {}  # where the lines of a page begin in the two tables
        self._since = np.zeros(0, np.int64)  # the picosecond from which on a line is there, plus 1; 0 for a missing one
        self._dirty = np.zeros(0, np.bool_)

    def look(self, lines: Lines) -> LinesFound:
        """The result of a lookup of *lines*, in ascending order."""
        places = self._places(lines)
        since = self._since[places]
        is_here = since > 0
        if is_here.all():
            return LinesFound(lines[:0], int(since.max()) - 1)
        return LinesFound(lines[~is_here], max(0, int(since.max()) - 1))

    def take(self, missing: Lines, since_ps: int) -> int:
        """Holds *missing*, in ascending order, from *since_ps* on. Returns how many lines have to be written back."""
        if not len(missing):
            return 0
        number = self._set_of(missing)
        order = number.argsort(kind="stable")
        lines, number = self._places(missing)[order], number[order]
        begins = np.flatnonzero(number[1:] != number[:-1]) + 1
        if len(begins) + 1 == len(number):  # each line in a set of its own
            way = self._oldest[number]
            self._oldest[number] = (way + 1) % self._ways
        else:
            begins = np.concatenate(([0], begins))
            counts = np.concatenate((begins[1:], [len(number)])) - begins
            # More lines for one set than it has ways: the first half comes in and may be pushed out by the second.
            if counts.max() > self._ways:
                half = len(missing) // 2
                return self.take(missing[:half], since_ps) + self.take(missing[half:], since_ps)
            way = (self._oldest[number] + np.arange(len(number)) - begins.repeat(counts)) % self._ways
            self._oldest[number[begins]] = (self._oldest[number[begins]] + counts) % self._ways
        # A way that was never used holds -1.
        gone = self._held[number, way]
        self._held[number, way] = lines
        n_written = self._drop(gone[gone >= 0])
        self._since[lines] = since_ps + 1
        return n_written

    def _drop(self, gone: Lines) -> int:
        """Drops the lines at *gone*. Returns how many have to be written back."""
        if not len(gone):
            return 0
        self._since[gone] = 0
        dirty = self._dirty[gone]
        self._dirty[gone] = False
        return int(np.count_nonzero(dirty))

    def soil(self, lines: Lines) -> None:
        """Marks *lines* as written: the memory behind lacks their bytes. Lines that the cache lacks stay clean."""
        places = self._places(lines)
        self._dirty[places] = self._since[places] > 0

    @property
    def n_dirty(self) -> int:
        """The number of lines whose bytes the memory behind lacks."""
        return int(np.count_nonzero(self._dirty))

    def _set_of(self, lines: Lines) -> Lines:
        return ((lines * _HASH & 0xFFFFFFFF) if self._hashed else lines) % self._sets

    def _places(self, lines: Lines) -> Lines:
        """The places of *lines*, in ascending order, in the tables."""
        first, last = int(lines[0]) // _PAGE, int(lines[-1]) // _PAGE
        if first == last:
            return lines + self._shift(first)
        pages, which = np.unique(lines // _PAGE, return_inverse=True)
        shifts: Lines = np.array([self._shift(page) for page in pages.tolist()])[which.reshape(-1)]
        return lines + shifts

    def _shift(self, page: int) -> int:
        """The number to add to a line of *page* for its place."""
        begin = self._pages.get(page)
        if begin is None:
            begin = self._pages[page] = len(self._pages) * _PAGE
            if begin >= len(self._since):
                size = max(_PAGE, 2 * begin)
                self._since, self._dirty = _longer(self._since, size), _longer(self._dirty, size)
        return begin - page * _PAGE


def _longer(table: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    longer = np.zeros(size, table.dtype)
    longer[: len(table)] = table
    return longer
