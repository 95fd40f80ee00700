"""The simulation's clock: SimPy's environment, counting integer picoseconds.

Besides SimPy's events and processes it takes plain callbacks, `call_at(t, function, argument)`. Both share one heap.
Entries at equal times run in the order in which they were scheduled (SimPy's urgent events first), always.

A heap of thousands of entries, many at one time, costs a dozen comparisons of equal times each. While `drain` finds it
that long, what lies ahead is kept in buckets of a span of time each (a calendar queue: Brown, CACM 31 (10), 1988), and
sorted when its turn comes.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

import simpy
from simpy.core import SimTime
from simpy.events import NORMAL, Event

from kb_messages import KbError

HOUSEKEEPING_INTERVAL = 1 << 14
"""Entries between two calls of a clock's *housekeeping*."""

_YOUNG_OBJECTS = 1 << 18
"""How many more of them than at the last look make Python's garbage collector look at what is young."""

_MANY = 512
"""Entries from which on buckets are used. Source: assumed."""

_BUCKETS_AN_INTERVAL = 64
"""Between two looks. Source: assumed; with 512 PEs, a quarter as many and four times as many took as long."""

_CALLBACK_LENGTH = 5
"""A callback's entry is (time, priority, ticket, function, argument); SimPy's end with one event instead."""


class _Stopped(Exception):
    """Ends `drain`."""


class _Now:
    """The time in a slot, so that hot loops read it without a dictionary."""

    __slots__ = ("now_ps",)

    now_ps: int


class Clock(_Now, simpy.Environment):
    """SimPy's environment with integer times. `now_ps` is the time in picoseconds; SimPy calls the same slot `now`.

    `push` and `tickets` are open to the engine's own hot paths, which schedule `(t_ps, NORMAL, next(tickets), function,
    argument)` themselves; everyone else uses `call_at`.
    """

    now: int = vars(_Now)["now_ps"]
    _now: int = vars(_Now)["now_ps"]

    def __init__(self, housekeeping: Callable[[], None] | None = None) -> None:
        super().__init__(0)
        self.heap: list[Any] = self._queue
        self.tickets = self._eid
        self.push: Callable[[Any], None] = partial(heappush, self.heap)
        self._horizon_ps: int | None = None
        self._near: list[Any] = []
        self._buckets: dict[int, list[Any]] = {}
        self._order: list[int] = []
        self._shift = 0
        self._housekeeping = housekeeping
        self.is_broken = False

    def call_at(self, t_ps: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call `function(argument)` at *t_ps*. Raises ValueError for a time in the past, TypeError for no int."""
        if type(t_ps) is not int:
            raise TypeError(f"got a time of {t_ps!r}, needs an int of picoseconds")
        if t_ps < self.now_ps:
            raise ValueError(f"call_at({t_ps}) is before now ({self.now_ps})")
        self.push((t_ps, NORMAL, next(self.tickets), function, argument))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is scheduled."""
        return not (self.heap or self._near or self._order)

    def schedule(self, event: Event, priority: Any = NORMAL, delay: SimTime = 0) -> None:
        """SimPy's own scheduling. Raises TypeError for a delay that is no int."""
        if type(delay) is not int:
            raise TypeError(f"got a delay of {delay!r}, needs an int of picoseconds")
        self.push((self.now_ps + delay, priority, next(self.tickets), event))

    def peek(self) -> SimTime:
        """When the next entry is; infinity when there is none."""
        bucket = self._buckets[self._order[0]] if self._order else []
        return min((entry[0] for entry in (*self.heap[:1], *self._near[-1:], *bucket)), default=math.inf)

    def step(self) -> None:
        """Run the next entry, callback or event."""
        if self.heap and len(self.heap[0]) == _CALLBACK_LENGTH:
            entry = heappop(self.heap)
            self.now_ps = entry[0]
            entry[3](entry[4])
        else:
            super().step()

    def stop(self) -> None:
        """End `drain` now, out of a callback that it runs; what is scheduled stays so."""
        raise _Stopped

    def mark_broken(self) -> None:
        """Refuse to run from now on, because the simulation is stuck."""
        self.is_broken = True

    def drain(self) -> None:
        """Run until nothing is scheduled or `stop` is called, with *housekeeping* now and then.

        Meanwhile Python's garbage collector looks at what is young alone, and only when much has piled up: a chip of
        hundreds of PEs is a million objects, which live as long as it does, and looking at all of them takes longer
        than simulating. So does looking at the thousands that are on their way, again and again.

        What an entry raises is raised here, and the clock `is_broken`: what it left half done cannot go on. Whoever
        finds the simulation stuck says so by that, too. Raises KbError when it is.
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
        collects = gc.isenabled()
        gc.disable()
        try:
            self._run()
        finally:
            self._gather()
            if collects:
                gc.enable()

    def _run(self) -> None:
        while not self.is_idle:
            began_ps = self.now_ps
            self._run_entries()
            if gc.get_count()[0] >= _YOUNG_OBJECTS:
                gc.collect(0)
            self._choose_queue((self.now_ps - began_ps) // _BUCKETS_AN_INTERVAL)
            if self._housekeeping is not None:
                self._housekeeping()

    def _run_entries(self) -> None:
        """As many as lie between two looks: what is near and what is on the heap, in order, then the next bucket."""
        heap, near = self.heap, self._near
        step = super().step
        for _ in repeat(None, HOUSEKEEPING_INTERVAL):
            if near:
                entry = heappop(heap) if heap and heap[0] < near[-1] else near.pop()
            elif heap:
                entry = heappop(heap)
            elif self._order:
                self._open_bucket()
                continue
            else:
                break
            if len(entry) == _CALLBACK_LENGTH:
                self.now_ps = entry[0]
                entry[3](entry[4])
            else:
                heappush(heap, entry)
                step()

    def _push_ahead(self, entry: Any) -> None:
        """Schedule an entry: on the heap before the horizon, else in its bucket."""
        assert self._horizon_ps is not None
        if entry[0] < self._horizon_ps:
            heappush(self.heap, entry)
            return
        number = entry[0] >> self._shift
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [entry]
            heappush(self._order, number)
        else:
            bucket.append(entry)

    def _open_bucket(self) -> None:
        """Bring the next bucket's entries near: last first, as they are popped from the end."""
        number = heappop(self._order)
        self._horizon_ps = (number + 1) << self._shift
        self._near += self._buckets.pop(number)
        self._near.sort(reverse=True)

    def _choose_queue(self, span_ps: int) -> None:
        """Buckets of about *span_ps* for many entries, the heap alone for few."""
        n_entries = len(self.heap) + len(self._near) + sum(map(len, self._buckets.values()))
        shift = span_ps.bit_length()
        if n_entries < _MANY:
            self._gather()
        elif self._horizon_ps is None or abs(shift - self._shift) > 1:
            self._gather()
            self._shift, self._horizon_ps, self.push = shift, 0, self._push_ahead
            for entry in self.heap:
                self.push(entry)
            self.heap.clear()

    def _gather(self) -> None:
        """Put everything on the heap."""
        if self._horizon_ps is None:
            return
        self.heap += self._near
        self.heap += (entry for bucket in self._buckets.values() for entry in bucket)
        self.heap.sort()
        self._near.clear()
        self._buckets.clear()
        self._order.clear()
        self._horizon_ps, self.push = None, partial(heappush, self.heap)
