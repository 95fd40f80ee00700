"""The simulation's clock: SimPy's environment, counting integer picoseconds.

Besides SimPy's events and processes it takes plain callbacks, `call_at(t, function, argument)`. Both share one heap.
Entries at equal times run in the order in which they were scheduled (SimPy's urgent events first), always.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

import simpy
from simpy.core import SimTime
from simpy.events import NORMAL, Event

HOUSEKEEPING_INTERVAL = 1 << 14
"""Entries between two calls of `Clock.housekeeping`."""

_YOUNG_OBJECTS = 1 << 18
"""How many more of them than at the last look make Python's garbage collector look at what is young."""

_CALLBACK_LENGTH = 5
"""A callback's entry is (time, priority, ticket, function, argument); SimPy's end with one event instead."""


class _Stopped(Exception):
    """Ends `drain`."""


class Clock(simpy.Environment):
    """`now` is an int of picoseconds; a delay that is no int is refused.

    `heap` and `tickets` are open to the engine's own hot paths, which push `(t_ps, NORMAL, next(tickets), function,
    argument)` themselves; everyone else uses `call_at`.
    """

    _now: int

    def __init__(self) -> None:
        super().__init__(0)
        self.heap: list[Any] = self._queue
        self.tickets = self._eid
        self.housekeeping: Callable[[], None] = lambda: None

    def call_at(self, t_ps: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call `function(argument)` at *t_ps*. Raises ValueError for a time in the past, TypeError for no int."""
        if type(t_ps) is not int:
            raise TypeError(f"got a time of {t_ps!r}, needs an int of picoseconds")
        if t_ps < self._now:
            raise ValueError(f"call_at({t_ps}) is before now ({self._now})")
        heappush(self.heap, (t_ps, NORMAL, next(self.tickets), function, argument))

    def schedule(self, event: Event, priority: Any = NORMAL, delay: SimTime = 0) -> None:
        """SimPy's own scheduling. Raises TypeError for a delay that is no int."""
        if type(delay) is not int:
            raise TypeError(f"got a delay of {delay!r}, needs an int of picoseconds")
        super().schedule(event, priority, delay)

    def step(self) -> None:
        """Run the next entry, callback or event."""
        if self.heap and len(self.heap[0]) == _CALLBACK_LENGTH:
            entry = heappop(self.heap)
            self._now = entry[0]
            entry[3](entry[4])
        else:
            super().step()

    def stop(self) -> None:
        """End `drain` now, out of a callback that it runs; what is scheduled stays so."""
        raise _Stopped

    def drain(self) -> None:
        """Run until nothing is scheduled or `stop` is called, with `housekeeping` now and then.

        Meanwhile Python's garbage collector looks at what is young alone, and only when much has piled up: a chip of
        hundreds of PEs is a million objects, which live as long as it does, and looking at all of them takes longer
        than simulating. So does looking at the thousands that are on their way, again and again.
        """
        with suppress(_Stopped):
            self._drain()

    def _drain(self) -> None:
        collects = gc.isenabled()
        gc.disable()
        try:
            self._run()
        finally:
            if collects:
                gc.enable()

    def _run(self) -> None:
        heap = self.heap
        step = super().step
        while heap:
            for _ in repeat(None, HOUSEKEEPING_INTERVAL):
                if not heap:
                    break
                entry = heappop(heap)
                if len(entry) == _CALLBACK_LENGTH:
                    self._now = entry[0]
                    entry[3](entry[4])
                else:
                    heappush(heap, entry)
                    step()
            if gc.get_count()[0] >= _YOUNG_OBJECTS:
                gc.collect(0)
            self.housekeeping()
