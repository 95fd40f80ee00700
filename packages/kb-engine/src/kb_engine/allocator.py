"""First-fit allocation of byte ranges: HBM for the host, the allocator's part of a TCM for a kernel."""

from __future__ import annotations

from bisect import insort

from kb_messages.errors import KbError


class OutOfMemoryError(KbError):
    """An allocation that does not fit."""


class Allocator:
    """Hands out ranges of `[base, base + nbytes)`, lowest address first, and takes them back."""

    def __init__(self, label: str, base: int, nbytes: int, alignment: int = 64) -> None:
        self._label = label
        self._alignment = alignment
        self._free: list[tuple[int, int]] = [(base, base + nbytes)] if nbytes > 0 else []
        self._taken: dict[int, int] = {}
        self._nbytes = nbytes

    @property
    def free_nbytes(self) -> int:
        """Bytes not handed out, in however many pieces."""
        return sum(end - start for start, end in self._free)

    def allocate(self, nbytes: int) -> int:
        """The start of *nbytes* fresh bytes. Raises OutOfMemoryError saying how much there is."""
        size = max(1, -(-nbytes // self._alignment)) * self._alignment
        for position, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[position : position + 1] = [(start + size, end)] if end - start > size else []
                self._taken[start] = start + size
                return start
        largest = max((end - start for start, end in self._free), default=0)
        raise OutOfMemoryError(
            self._label,
            f"a request for {nbytes} bytes",
            f"at most {largest} in one piece ({self.free_nbytes} of {self._nbytes} are free)",
            "use smaller tensors or a larger memory",
        )

    def release(self, start: int) -> None:
        """Give a range back. Raises KbError when nothing was allocated at *start*."""
        if start not in self._taken:
            raise KbError(
                self._label, f"a release of {start:#x}", "the start of an allocation that is not yet released"
            )
        end = self._taken.pop(start)
        insort(self._free, (start, end))
        merged: list[tuple[int, int]] = []
        for piece in self._free:
            if merged and merged[-1][1] == piece[0]:
                merged[-1] = (merged[-1][0], piece[1])
            else:
                merged.append(piece)
        self._free = merged
