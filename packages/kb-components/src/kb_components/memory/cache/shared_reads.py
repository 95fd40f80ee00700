"""Reads of the same bytes at the same time, which a network that multicasts serves as one."""

from __future__ import annotations

from kb_messages import Rectangle

_MOST_OPEN = 1 << 12


class SharedReads:
    """Serves up to *receivers* reads of the same bytes as one, while the first of them is under way."""

    def __init__(self, receivers: int) -> None:
        self._more = receivers - 1
        self._open: dict[Rectangle, tuple[int, tuple[int, int]]] = {}

    def begin(self, memory: Rectangle, served: tuple[int, int]) -> None:
        """Notes that a read of *memory* has begun. Its first and last byte leave at *served*, in picoseconds."""
        if not self._more:
            return
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[memory] = self._more, served

    def join(self, memory: Rectangle, t_ps: int) -> tuple[int, int] | None:
        """The times of the first and the last byte of a read of *memory* that arrives at *t_ps* and joins another read.

        None where it can join no read.
        """
        found = self._open.get(memory)
        if found is None:
            return None
        more, (first, last) = found
        if last < t_ps:
            del self._open[memory]
            return None
        if more > 1:
            self._open[memory] = more - 1, (first, last)
        else:
            del self._open[memory]
        return max(first, t_ps), last
