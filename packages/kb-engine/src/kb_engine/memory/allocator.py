"""First-fit allocation of bytes in HBM, in SRAM, and in the part of a TCM that tile buffers do not use."""

from __future__ import annotations

from bisect import bisect_left
from heapq import nlargest

from kb_messages import KbError

_SHOWN = 3
"""Holders that an error names."""


class OutOfMemoryError(KbError):
    """An allocation that does not fit."""


class Allocator:
    """Hands out ranges of the *nbytes* bytes at *base*, the lowest free range first, and takes them back.

    Every range begins at a multiple of *alignment* bytes from *base*. *label* names the memory in errors.
    """

    def __init__(self, label: str, base: int, nbytes: int, alignment: int = 64) -> None:
        self._label = label
        self._alignment = alignment
        self._free: list[tuple[int, int]] = [(base, base + nbytes)] if nbytes > 0 else []
        self._taken: dict[int, tuple[int, str]] = {}
        self._nbytes = nbytes

    @property
    def free_nbytes(self) -> int:
        """Free bytes, in one piece or in several."""
        return sum(end - start for start, end in self._free)

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """The address of *nbytes* free bytes, which *holder* has from now on.

        Raises OutOfMemoryError, which says how much is free and who holds the rest.
        """
        size = max(1, -(-nbytes // self._alignment)) * self._alignment
        for position, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[position : position + 1] = [(start + size, end)] if end - start > size else []
                self._taken[start] = start + size, holder
                return start
        largest = max((end - start for start, end in self._free), default=0)
        raise OutOfMemoryError(
            self._label,
            f"a request for {nbytes} bytes",
            f"at most {largest} in one piece ({self.free_nbytes} of {self._nbytes} are free{self._held()})",
            "use smaller tensors or a larger memory",
        )

    def release(self, start: int) -> None:
        """Give back the range that `allocate` put at *start*. Raises KbError for any other address."""
        if start not in self._taken:
            raise KbError(
                self._label, f"a release of {start:#x}", "the start of an allocation that is not yet released"
            )
        end, _ = self._taken.pop(start)
        free = self._free
        after = bisect_left(free, (start, end))
        before = after
        if after < len(free) and free[after][0] == end:
            end, after = free[after][1], after + 1
        if before and free[before - 1][1] == start:
            start, before = free[before - 1][0], before - 1
        free[before:after] = [(start, end)]

    def _held(self) -> str:
        """The largest holders and how many bytes each has, as the end of a sentence."""
        held: dict[str, int] = {}
        for start, (end, holder) in self._taken.items():
            if holder:
                held[holder] = held.get(holder, 0) + end - start
        return "".join(f", {holder} holds {held[holder]}" for holder in nlargest(_SHOWN, held, held.__getitem__))


class Lease:
    """One program's share of an allocator that others use too. `end` gives back all that the program still holds."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._starts: set[int] = set()

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """As `Allocator.allocate`."""
        start = self._allocator.allocate(nbytes, holder)
        self._starts.add(start)
        return start

    def release(self, start: int) -> None:
        """As `Allocator.release`."""
        self._allocator.release(start)
        self._starts.remove(start)

    def end(self) -> None:
        """Give back all ranges that are still held."""
        for start in sorted(self._starts):
            self._allocator.release(start)
        self._starts.clear()
