"""CalendarQueue: the entries of a clock, on a heap while they are few, and in buckets of time while they are many.

With thousands of entries on a heap, many of them at one time, each push and pop costs a dozen comparisons of equal
times. A calendar queue (Brown, CACM 31 (10), 1988) puts later entries unsorted into buckets that span equal times, and
sorts a bucket when its turn comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

_MANY = 512
"""The number of entries from which on buckets are used. Source: assumed."""


class CalendarQueue:
    """Entries (time, ...) in order. The next entry is `near[-1]` or `heap[0]`, whichever is less.

    `push` schedules an entry. It is another function after `arrange` and `gather`. When `near` and `heap` are empty and
    the queue is not, `open_bucket` fills `near`.
    """

    __slots__ = ("_buckets", "_horizon_ps", "_numbers", "_shift", "heap", "near", "push")

    def __init__(self, heap: list[Any]) -> None:
        """*heap* is SimPy's own list, so that SimPy finds its events there."""
        self.heap = heap
        self.near: list[Any] = []
        self.push: Callable[[Any], None] = partial(heappush, heap)
        self._buckets: dict[int, list[Any]] = {}
        self._numbers: list[int] = []
        self._shift = 0
        self._horizon_ps: int | None = None

    def __bool__(self) -> bool:
        return bool(self.heap or self.near or self._numbers)

    def __len__(self) -> int:
        return len(self.heap) + len(self.near) + sum(map(len, self._buckets.values()))

    def remove(self, entry: Any) -> None:
        """Takes *entry* out. Raises ValueError when it is not there."""
        if entry in self.near:
            self.near.remove(entry)
            return
        if entry in self.heap:
            self.heap.remove(entry)
            heapify(self.heap)
            return
        self._buckets[entry[0] >> self._shift].remove(entry)

    def next_ps(self) -> float:
        """The time of the next entry; infinity when there is none."""
        bucket = self._buckets[self._numbers[0]] if self._numbers else []
        return min((entry[0] for entry in (*self.heap[:1], *self.near[-1:], *bucket)), default=math.inf)

    def open_bucket(self) -> bool:
        """Moves the entries of the next bucket to `near`, the last entry first. False when there is no bucket."""
        if not self._numbers:
            return False
        number = heappop(self._numbers)
        self._horizon_ps = (number + 1) << self._shift
        self.near += self._buckets.pop(number)
        self.near.sort(reverse=True)
        return True

    def arrange(self, span_ps: int) -> None:
        """Uses buckets of about *span_ps* for many entries, and the heap alone for few."""
        shift = span_ps.bit_length()
        if len(self) < _MANY:
            self.gather()
        elif self._horizon_ps is None or abs(shift - self._shift) > 1:
            self.gather()
            self._shift, self._horizon_ps, self.push = shift, 0, self._push_ahead
            for entry in self.heap:
                self.push(entry)
            self.heap.clear()

    def gather(self) -> None:
        """Puts all entries on the heap."""
        if self._horizon_ps is None:
            return
        self.heap += self.near
        self.heap += (entry for bucket in self._buckets.values() for entry in bucket)
        self.heap.sort()
        self.near.clear()
        self._buckets.clear()
        self._numbers.clear()
        self._horizon_ps, self.push = None, partial(heappush, self.heap)

    def _push_ahead(self, entry: Any) -> None:
        """Puts *entry* on the heap if its time is before the end of the open bucket, else into its bucket."""
        assert self._horizon_ps is not None
        if entry[0] < self._horizon_ps:
            heappush(self.heap, entry)
            return
        number = entry[0] >> self._shift
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [entry]
            heappush(self._numbers, number)
        else:
            bucket.append(entry)
