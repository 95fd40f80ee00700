"""Allocator: hands out bytes of HBM, of SRAM, and of the part of a TCM that tile buffers do not use.

Design: docs/design/memories.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import nlargest

from kb_messages import KbError

_SHOWN = 3
"""Holders that an error names."""


class OutOfMemoryError(KbError):
    """An allocation that does not fit. `limit` is the bytes that are free in one piece, where it is known."""

    limit = 0


class Allocator:
    """Hands out ranges of the *nbytes* bytes at *base*, and takes them back.

    An allocation takes the free range of its size that was given back longest ago. So a loop that loads tile after tile
    keeps as many ranges as it has tiles at a time, and takes them in turn. If there is no such range, the largest free
    one is split, of equals the lowest. Free neighbours become one range when no range is large enough otherwise.

    Of the first *spread_nbytes* bytes, bytes that were never taken come before bytes that were given back. So commands
    that run ahead do not get the bytes that earlier commands still read.

    Every range begins at a multiple of *alignment* bytes from *base*. *label* names the memory in errors.
    """

    def __init__(self, label: str, base: int, nbytes: int, alignment: int = 64, spread_nbytes: int = 0) -> None:
        self._label = label
        self.base = base
        self._fresh = base, max(0, nbytes)
        self._spread_end = base + spread_nbytes
        self._alignment = alignment
        self._free: dict[int, deque[int]] = {}
        self._taken: dict[int, tuple[int, str]] = {}
        self.nbytes = max(0, nbytes)
        """All bytes, taken or free."""
        self.free_nbytes = self.nbytes
        """Free bytes, in one piece or in several."""
        if nbytes > 0:
            self._free[nbytes] = deque([base])

    @property
    def state(self) -> object:
        """Which bytes are free, and in which order they are taken."""
        return self.free_nbytes, self._fresh, sorted((size, tuple(starts)) for size, starts in self._free.items())

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """The address of *nbytes* free bytes, which *holder* has from now on.

        Raises OutOfMemoryError, which says how much is free and who holds the rest.
        """
        size = (-(-nbytes // self._alignment) or 1) * self._alignment
        start = self._take_fresh(size) if self._fresh[0] + size <= self._spread_end else None
        if start is None and (starts := self._free.get(size)) is not None:
            start = starts.popleft()
            if not starts:
                del self._free[size]
        if start is None:
            start = self._split(size)
        if start is None and self.free_nbytes >= size:
            self._join()
            start = self._split(size)
        if start is None:
            raise self._full(nbytes)
        self._taken[start] = size, holder
        self.free_nbytes -= size
        return start

    def release(self, start: int) -> None:
        """Gives back the range that `allocate` put at *start*. Raises KbError for any other address."""
        taken = self._taken.pop(start, None)
        if taken is None:
            raise KbError(
                self._label, f"a release of {start:#x}", "the start of an allocation that is not yet released"
            )
        size = taken[0]
        starts = self._free.get(size)
        if starts is None:
            self._free[size] = deque((start,))
        else:
            starts.append(start)
        self.free_nbytes += size

    def take(self, start: int, nbytes: int, holder: str = "") -> None:
        """Allocates the *nbytes* bytes at *start* for *holder*. The caller has checked that they are free."""
        size = self.rounded(nbytes)
        first, last = next(each for each in self.free_ranges() if each[0] <= start and start + size <= each[1])
        self._remove(first, last - first)
        for low, high in ((first, start), (start + size, last)):
            if low < high:
                self._give(low, high - low)
        self._taken[start] = size, holder
        self.free_nbytes -= size

    def take_last(self, nbytes: int, holder: str = "") -> int:
        """The address of the last *nbytes* free bytes, which *holder* has from now on. Raises as `allocate` does."""
        size = self.rounded(nbytes)
        # Free neighbours are joined only where that is needed, because joined bytes are taken in another order.
        fits = self._at_least(size, self._ranges()) or self._at_least(size, self.free_ranges())
        if not fits:
            raise self._full(nbytes)
        low, high = fits[-1]
        start = self.base + (high - size - self.base) // self._alignment * self._alignment
        if self._fresh == (low, high - low):
            self._fresh = low, start - low
        self._remove(low, high - low)
        for first, last in ((low, start), (start + size, high)):
            if first < last:
                self._give(first, last - first)
        self._taken[start] = size, holder
        self.free_nbytes -= size
        return start

    def has_room(self, nbytes: int) -> bool:
        """Whether `allocate` has room for *nbytes*."""
        self._join()
        return max(self._free, default=0) >= self.rounded(nbytes)

    def add(self, start: int, nbytes: int) -> None:
        """Adds the *nbytes* bytes from *start* on, a multiple of the alignment, to the free bytes."""
        self._give(start, nbytes)
        self.nbytes += nbytes
        self.free_nbytes += nbytes

    def free_ranges(self) -> list[tuple[int, int]]:
        """Returns (first address, address after the last byte) of the free ranges, in order. Free neighbours are
        joined."""
        self._join()
        return self._ranges()

    def give_up(self, start: int, nbytes: int) -> None:
        """Takes the *nbytes* bytes from *start* on out of use. The caller has checked that they are free."""
        end = start + nbytes
        first, last = next(each for each in self.free_ranges() if each[0] <= start and end <= each[1])
        self._remove(first, last - first)
        for low, high in ((first, start), (end, last)):
            if low < high:
                self._give(low, high - low)
        self.nbytes -= nbytes
        self.free_nbytes -= nbytes

    def largest_nbytes(self) -> int:
        """The size of the largest range of free bytes that lie side by side. Changes nothing."""
        largest = at = last = 0
        for start, end in self._ranges():
            at = at if start == last else start
            last = end
            largest = max(largest, end - at)
        return largest

    def rounded(self, nbytes: int) -> int:
        """The bytes that an allocation of *nbytes* takes."""
        return (-(-nbytes // self._alignment) or 1) * self._alignment

    def _at_least(self, size: int, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(low, high) for low, high in ranges if high - low >= size]

    def _ranges(self) -> list[tuple[int, int]]:
        """Returns (first address, address after the last byte) of the free ranges, in order, as they are split now."""
        return sorted((start, start + size) for size, starts in self._free.items() for start in starts)

    def _take_fresh(self, size: int) -> int | None:
        """The start of the first *size* bytes to spread that were never taken; None if all are taken."""
        start, left = self._fresh
        if start not in self._free.get(left, ()):
            return None
        self._remove(start, left)
        if left > size:
            self._give(start + size, left - size)
        self._fresh = start + size, left - size
        return start

    def _remove(self, start: int, size: int) -> None:
        self._free[size].remove(start)
        if not self._free[size]:
            del self._free[size]

    def _give(self, start: int, size: int) -> None:
        starts = self._free.get(size)
        if starts is None:
            self._free[size] = deque((start,))
        else:
            starts.append(start)

    def _split(self, size: int) -> int | None:
        """The first *size* bytes of the largest free range, whose rest stays free; None if it is too small."""
        largest = max(self._free, default=0)
        if largest < size:
            return None
        start = min(self._free[largest])
        self._remove(start, largest)
        if largest > size:
            self._give(start + size, largest - size)
        return start

    def _join(self) -> None:
        """Makes one range of all free ranges that lie side by side."""
        ranges = self._ranges()
        self._free.clear()
        at = 0
        while at < len(ranges):
            start, end = ranges[at]
            while (at := at + 1) < len(ranges) and ranges[at][0] == end:
                end = ranges[at][1]
            self._give(start, end - start)

    def held(self) -> Mapping[str, int]:
        """The taken bytes of each holder that has a name."""
        held: dict[str, int] = {}
        for size, holder in self._taken.values():
            if holder:
                held[holder] = held.get(holder, 0) + size
        return held

    def _full(self, nbytes: int) -> OutOfMemoryError:
        self._join()
        limit = max(self._free, default=0)
        got = f"a request for {nbytes} bytes"
        if nbytes <= limit:
            got += f", which takes {self.rounded(nbytes)} in whole pages or blocks of {self._alignment}"
        return out_of_memory(self._label, got, limit, (self.free_nbytes, self.nbytes), self.held())


def out_of_memory(
    label: str, got: str, limit: int, free_of_all: tuple[int, int], held: Mapping[str, int]
) -> OutOfMemoryError:
    """The error of the request *got* to the memory *label*, of which at most *limit* bytes are free in one piece.

    *free_of_all* has the free bytes and all bytes. *held* has the bytes of each holder, of which the largest are named.
    """
    free, total = free_of_all
    holders = "".join(f", {each} holds {held[each]}" for each in nlargest(_SHOWN, held, held.__getitem__))
    error = OutOfMemoryError(
        label,
        got,
        f"at most {limit} in one piece ({free} of {total} are free{holders})",
        "use smaller tensors or a larger memory",
    )
    error.limit = limit
    return error


class Lease:
    """One program's share of an allocator that others use too. `end` gives back all that the program still holds.

    `abandon` also gives them back, for a program whose launch has failed. `has_ended` says that the program holds
    nothing any more.
    """

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self._starts: set[int] = set()
        self.has_ended = False

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """The address of *nbytes* free bytes, which *holder* has from now on. Raises OutOfMemoryError."""
        start = self.allocator.allocate(nbytes, holder)
        self._starts.add(start)
        return start

    def take(self, start: int, nbytes: int, holder: str = "") -> int:
        """Allocates the free *nbytes* bytes at *start* for *holder*. Returns *start*."""
        self.allocator.take(start, nbytes, holder)
        self._starts.add(start)
        return start

    def release(self, start: int) -> None:
        """Gives back the range at *start*."""
        self._starts.discard(start)  # first, so that an interrupt in between cannot have `end` release it again
        self.allocator.release(start)

    @property
    def held(self) -> Sequence[int]:
        """The starts of all ranges that are still held, in their order."""
        return sorted(self._starts)

    def end(self) -> None:
        """Gives back all ranges that are still held, because the program ends."""
        self.abandon()

    def abandon(self) -> None:
        """Gives back all ranges that are still held, without notifying an observer."""
        self.has_ended = True
        if self._starts:
            for start in self.held:
                self.allocator.release(start)
            self._starts.clear()
