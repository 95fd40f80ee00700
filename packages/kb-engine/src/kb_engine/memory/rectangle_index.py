"""RectangleIndex: rectangles of bytes by place, so that the rectangles near a given one are found without a search of
all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, TypeVar

from kb_messages import OFFSET_BITS, Rectangle

PayloadT = TypeVar("PayloadT")


class Entry(NamedTuple, Generic[PayloadT]):
    """A rectangle of the index with the payload of its user. Compared by identity when it is removed."""

    rectangle: Rectangle
    payload: PayloadT


class RectangleIndex(Generic[PayloadT]):
    """Entries by memory and by their first address."""

    __slots__ = ("_by_owner",)

    def __init__(self) -> None:
        self._by_owner: dict[int, _OneMemory[PayloadT]] = {}

    def __len__(self) -> int:
        return sum(len(memory.entries) for memory in self._by_owner.values())

    def entries(self) -> list[Entry[PayloadT]]:
        """All entries."""
        return [entry for memory in self._by_owner.values() for entry in memory.entries]

    def near(self, rectangle: Rectangle) -> list[Entry[PayloadT]]:
        """The entries that may share bytes with *rectangle*: their spans from first to last byte overlap."""
        start = rectangle.base
        memory = self._by_owner.get(start >> OFFSET_BITS)
        if memory is None:
            return []
        starts = memory.starts
        first = bisect_right(starts, start - memory.longest)
        if first == len(starts):
            return []
        end = start + (rectangle.rows - 1) * rectangle.stride + rectangle.row_nbytes
        found = memory.entries[first : bisect_left(starts, end, first)]
        if len(found) == 1 and starts[first] == start:
            return found
        return [entry for entry in found if entry.rectangle.end > start]

    def add(self, rectangle: Rectangle, payload: PayloadT) -> Entry[PayloadT]:
        """Adds *rectangle* and returns its entry."""
        entry, start = Entry(rectangle, payload), rectangle.base
        memory = self._by_owner.get(start >> OFFSET_BITS)
        if memory is None:
            memory = self._by_owner[start >> OFFSET_BITS] = _OneMemory()
        at = bisect_right(memory.starts, start)
        memory.starts.insert(at, start)
        memory.entries.insert(at, entry)
        span_nbytes = (rectangle.rows - 1) * rectangle.stride + rectangle.row_nbytes
        if span_nbytes > memory.longest:
            memory.longest = span_nbytes
        return entry

    def remove(self, entry: Entry[PayloadT]) -> None:
        """Removes *entry*, which `add` returned."""
        memory = self._by_owner[entry.rectangle.owner]
        at = bisect_left(memory.starts, entry.rectangle.base)
        while memory.entries[at] is not entry:
            at += 1
        del memory.starts[at], memory.entries[at]


class _OneMemory(Generic[PayloadT]):
    """The entries of one memory, ordered by `starts`, their first addresses. No entry spans more than `longest`."""

    __slots__ = ("entries", "longest", "starts")

    def __init__(self) -> None:
        self.entries: list[Entry[PayloadT]] = []
        self.starts: list[int] = []
        self.longest = 0
