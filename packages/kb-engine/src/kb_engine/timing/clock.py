"""Clock: SimPy's environment, counting integer picoseconds.

Besides SimPy's events and processes, a clock takes plain callbacks: `call_at(t, function, argument)`. Entries at equal
times run in the order of their numbers (`event_order`), SimPy's urgent events first. Entries that belong to no PE come
first, in the order in which they were scheduled: links, the host, and blocks that schedule without numbers of a PE.
Then come the entries of the PEs, PE after PE, and the entries of one PE in the order in which they were scheduled. So
the order in which two PEs act in one picosecond follows from the chip, and not from the past of either PE.

Design: docs/design/time-and-order.md
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count, repeat
from typing import Any

import simpy
from simpy.core import SimTime
from simpy.events import NORMAL, URGENT, Event

from kb_engine.timing.buckets import CalendarQueue
from kb_engine.timing.collector import collect_youngest, collector_off
from kb_messages import KbError

HOUSEKEEPING_INTERVAL = 1 << 14
"""Entries between two calls of a clock's *housekeeping*."""

_YOUNG_OBJECTS = 1 << 18
"""The number of young objects from which on Python's garbage collector runs at a housekeeping."""

_BUCKETS_AN_INTERVAL = 64
"""Buckets of time between two housekeepings. Source: assumed; with 512 PEs, 16 and 256 buckets took as long."""

_CALLBACK_LENGTH = 5
"""A callback's entry is (time, priority, number, function, argument). SimPy's entries end with one event instead."""

_KEY_LENGTH = 3
"""The first elements of an entry, which decide its order: time, priority, number."""
_PE_BITS = 48
"""A PE has 2^48 numbers for entries, more than a run can use up."""


_FEW_ENTRIES = 32
"""The most entries that `few_entries` returns.

Source: assumed; a PE with deep queues and several transfers has fewer.
"""


class _Stopped(Exception):
    """Ends `drain`."""


def _order(entry: Any) -> Any:
    return entry[:3]


class _Now:
    """The time in a slot, because hot loops read a slot faster than an instance dictionary."""

    __slots__ = ("now_ps",)

    now_ps: int


class Clock(_Now, simpy.Environment):
    """SimPy's environment with integer times. `now_ps` is the time in picoseconds; SimPy calls the same slot `now`.

    The engine's own hot paths schedule `(t_ps, NORMAL, next(event_order), function, argument)` with `push`, where
    *event_order* gives the numbers of the PE to which the entry belongs. All other code uses `call_at`. *housekeeping*
    is called after every `HOUSEKEEPING_INTERVAL` entries.
    """

    now: int = vars(_Now)["now_ps"]
    _now: int = vars(_Now)["now_ps"]

    def __init__(self, housekeeping: Callable[[], None] | None = None) -> None:
        super().__init__(0)
        self.heap: list[Any] = self._queue
        self.event_order = self._eid
        self._pe_numbers: list[count[int]] = []
        self._entries = CalendarQueue(self.heap)
        self.push: Callable[[Any], None] = self._entries.push
        self._housekeeping = housekeeping
        self.is_broken = False
        self._entry: Any = (0, NORMAL, -1)

    @property
    def current(self) -> tuple[int, int, int]:
        """The time, the priority and the number of the entry that runs now."""
        found: tuple[int, int, int] = self._entry[:_KEY_LENGTH]
        return found

    def cancel(self, entry: Any) -> None:
        """Takes *entry*, which was pushed and has not run, out again."""
        self._entries.remove(entry)

    def call_at(
        self, t_ps: int, function: Callable[[Any], None], argument: Any, event_order: Iterator[int] | None = None
    ) -> None:
        """Calls `function(argument)` at *t_ps*. Raises ValueError for a time in the past, TypeError for no int.

        *event_order* gives the numbers of the PE that the entry belongs to (`pe_event_order`); by default the entry
        belongs to no PE.
        """
        if type(t_ps) is not int:
            raise TypeError(f"got a time of {t_ps!r}, needs an int of picoseconds")
        if t_ps < self.now_ps:
            raise ValueError(f"call_at({t_ps}) is before now ({self.now_ps})")
        self.push((t_ps, NORMAL, next(event_order or self.event_order), function, argument))

    def pe_event_order(self, number: int) -> Iterator[int]:
        """The numbers for entries of PE *number* of the chip.

        They are larger than the numbers of earlier PEs and of entries without a PE.
        """
        event_order = count((number + 1) << _PE_BITS)
        self._pe_numbers.append(event_order)
        return event_order

    @property
    def n_scheduled(self) -> int:
        """The number of entries so far, with the entries that have yet to run."""
        return sum(
            int(repr(event_order)[6:-1]) % (1 << _PE_BITS) for event_order in (self.event_order, *self._pe_numbers)
        )

    def call_next(self, function: Callable[[Any], None], argument: Any) -> None:
        """Calls `function(argument)` when the entry that runs now is over, before any other callback."""
        self.push((self.now_ps, URGENT, next(self.event_order), function, argument))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is scheduled."""
        return not self._entries

    def schedule(self, event: Event, priority: Any = NORMAL, delay: SimTime = 0) -> None:
        """SimPy's own scheduling. Raises TypeError for a delay that is no int."""
        if type(delay) is not int:
            raise TypeError(f"got a delay of {delay!r}, needs an int of picoseconds")
        self.push((self.now_ps + delay, priority, next(self.event_order), event))

    def peek(self) -> SimTime:
        """The time of the next entry; infinity when there is none."""
        return self._entries.next_ps()

    def step(self) -> None:
        """Runs the next entry, callback or event."""
        if self.heap and len(self.heap[0]) == _CALLBACK_LENGTH:
            entry = heappop(self.heap)
            self.now_ps = entry[0]
            self._entry = entry
            entry[3](entry[4])
        else:
            super().step()

    @contextmanager
    def apart(self) -> Iterator[list[Any]]:
        """Within the block, new entries go to a heap of their own, and `run_next` runs the first entry of that heap.

        Yields the heap. May be entered between two entries or within one. All other entries wait. `now_ps` is the same
        before and after the block. Entries that are left on the heap are dropped.
        """
        push, now_ps, queue = self.push, self.now_ps, self._queue
        heap: list[Any] = []
        self.push, self._queue = partial(heappush, heap), heap
        try:
            yield heap
        finally:
            self.push, self.now_ps, self._queue = push, now_ps, queue

    def turn_back(self, t_ps: int) -> None:
        """Sets the time back to *t_ps*, which is before now.

        Called within the block of `apart`, whose heap is given up.
        """
        self.now_ps = t_ps

    def run_next(self) -> None:
        """Runs the first entry of the heap of `apart`."""
        heap: list[Any] = self._queue
        if len(heap[0]) == _CALLBACK_LENGTH:
            entry = heappop(heap)
            self.now_ps = entry[0]
            entry[3](entry[4])
        else:
            super().step()

    @property
    def few_entries(self) -> list[Any] | None:
        """All entries, the next one first, where they are on one heap and at most `_FEW_ENTRIES`; None otherwise."""
        return self.entries(_FEW_ENTRIES)

    def entries(self, most: int) -> list[Any] | None:
        """All entries, the next one first, where they are on one heap and *most* at the most; None otherwise."""
        heap = self._queue
        if len(heap) > most or (heap is self.heap and len(self._entries) > len(heap)):
            return None
        return sorted(heap, key=_order)

    def skip(self, ps: int) -> None:
        """Moves the time on by *ps* picoseconds, and all entries with it. All entries have to be on one heap."""
        self._queue[:] = [(entry[0] + ps, *entry[1:]) for entry in self._queue]
        self.now_ps += ps

    def run_out(self) -> None:
        """Runs all entries of the heap of `apart`, with the entries that they schedule there."""
        heap: list[Any] = self._queue
        step = super().step
        while heap:
            entry = heappop(heap)
            try:
                self.now_ps, _, _, function, argument = entry
            except ValueError:  # an event of SimPy's
                heappush(heap, entry)
                step()
            else:
                function(argument)

    def stop(self) -> None:
        """Ends `drain` now. A callback calls this; entries that are scheduled stay scheduled."""
        raise _Stopped

    def mark_broken(self) -> None:
        """Refuses to run from now on, because the simulation is stuck."""
        self.is_broken = True

    def drain(self) -> None:
        """Runs until nothing is scheduled or until `stop` is called.

        Python's garbage collector does not run by itself meanwhile. The clock has it examine young objects alone, when
        many have piled up and the collector was on before.

        An error of an entry is raised here, and the clock is broken from then on, because the entry may have left its
        work half done. Raises KbError when the clock is broken already.
        """
        if self.is_broken:
            raise KbError("simulation", "a call after one that failed or got stuck", "a new engine", "build it again")
        try:
            with suppress(_Stopped):
                self._drain()
        except BaseException:
            self.is_broken = True
            raise

    def _drain(self) -> None:
        with collector_off():
            try:
                self._run()
            finally:
                self._entries.gather()
                self.push = self._entries.push

    def _run(self) -> None:
        while self._entries:
            began_ps = self.now_ps
            self._run_entries()
            if gc.get_count()[0] >= _YOUNG_OBJECTS:
                collect_youngest()
            self._entries.arrange((self.now_ps - began_ps) // _BUCKETS_AN_INTERVAL)
            self.push = self._entries.push
            if self._housekeeping is not None:
                self._housekeeping()

    def _run_entries(self) -> None:
        """Runs the entries up to the next housekeeping: the entries on the heap and near, in order, then the next
        bucket.
        """
        heap, near = self.heap, self._entries.near
        step = super().step
        for _ in repeat(None, HOUSEKEEPING_INTERVAL):
            if near:
                entry = heappop(heap) if heap and heap[0] < near[-1] else near.pop()
            elif heap:
                entry = heappop(heap)
            elif self._entries.open_bucket():
                continue
            else:
                break
            try:
                self._entry = self.now_ps, _, _, function, argument = entry
            except ValueError:  # an event of SimPy's
                heappush(heap, entry)
                step()
            else:
                function(argument)
