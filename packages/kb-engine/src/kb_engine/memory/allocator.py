"""First-fit allocation of byte ranges: of HBM, SRAM, and the part of a TCM that tile buffers do not use."""

from __future__ import annotations

from bisect import insort
from heapq import nlargest

from kb_messages import KbError

_SHOWN = 3


class OutOfMemoryError(KbError):
    """An allocation that does not fit."""


class Allocator:
    """Hands out ranges of `[base, base + nbytes)`, lowest address first, and takes them back."""

    def __init__(self, label: str, base: int, nbytes: int, alignment: int = 64) -> None:
        self._label = label
        self._alignment = alignment
        self._free: list[tuple[int, int]] = [(base, base + nbytes)] if nbytes > 0 else []
        self._taken: dict[int, tuple[int, str]] = {}
        self._nbytes = nbytes

    @property
    def free_nbytes(self) -> int:
        """Bytes not handed out, in however many pieces."""
        return sum(end - start for start, end in self._free)

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """The start of *nbytes* fresh bytes for *holder*. Raises OutOfMemoryError saying how much there is, and who
        holds the rest."""
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
        """Give a range back. Raises KbError when nothing was allocated at *start*."""
        if start not in self._taken:
            raise KbError(
                self._label, f"a release of {start:#x}", "the start of an allocation that is not yet released"
            )
        end, _ = self._taken.pop(start)
        insort(self._free, (start, end))
        merged: list[tuple[int, int]] = []
        for piece in self._free:
            if merged and merged[-1][1] == piece[0]:
                merged[-1] = (merged[-1][0], piece[1])
            else:
                merged.append(piece)
        self._free = merged

    def _held(self) -> str:
        """The largest holders, as the end of a sentence."""
        held: dict[str, int] = {}
        for start, (end, holder) in self._taken.items():
            if holder:
                held[holder] = held.get(holder, 0) + end - start
        return "".join(f", {holder} holds {held[holder]}" for holder in nlargest(_SHOWN, held, held.__getitem__))


class Lease:
    """What one program holds of an allocator that others use too; all of it goes back at the program's end."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._starts: set[int] = set()

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """As the allocator's."""
        start = self._allocator.allocate(nbytes, holder)
        self._starts.add(start)
        return start

    def release(self, start: int) -> None:
        """As the allocator's."""
        self._allocator.release(start)
        self._starts.remove(start)

    def end(self) -> None:
        """Give back what is still held."""
        for start in sorted(self._starts):
            self._allocator.release(start)
        self._starts.clear()
