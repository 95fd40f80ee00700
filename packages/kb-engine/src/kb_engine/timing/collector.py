"""Python's garbage collector, kept out of work that makes or uses a million objects that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock, local
from typing import Any, Final

_MANY: Final = 1 << 14
"""From so many young objects on, the objects are made old without an examination.

Python examines fewer objects in less than 2 ms. Source: assumed.
"""
_MOST_AGED: Final = 1 << 19
"""After so many objects were made old, all objects are examined.

Source: assumed; 512 PEs and the first launches of a decoder layer are 0.3 million.
"""
_SHARE_AGED: Final = 4
"""The objects made old also have to be one of this many of all old objects.

Source: the rule of CPython for old objects.
"""
_FROZEN_BY_PYTHON: Final = 1 << 10
"""With fewer frozen objects than this, no code has called `gc.freeze`.

Source: measured; Python 3.12.1 freezes 375 objects of its own as it starts, 3.11.7 and 3.13.0 none. `gc.freeze()`
freezes 4,000 and more, even where nothing is imported.
"""


class _CycleCollector(local):
    """Whether Python's collector of reference cycles runs now in this thread. Other threads have a state of their
    own."""

    runs = False

    def note(self, phase: str, _: dict[str, Any]) -> None:
        """The callback for `gc.callbacks`: the collector begins or ends."""
        self.runs = phase == "start"

    def has_ended(self) -> None:
        """Resets the state where an interrupt kept the collector from calling back at its end."""
        self.runs = False


COLLECTOR: Final = _CycleCollector()
gc.callbacks.append(COLLECTOR.note)


class _Aged:
    """Counts the objects that were made old since the last full collection, and the objects that were old then.

    Python counts neither: it examines old objects only when enough young ones come up between two calls of this class.
    """

    def __init__(self) -> None:
        self._count = self._n_old = 0

    def make_old(self) -> None:
        """Makes all young objects old without examining them, and collects all objects if too many have become old.

        Objects that a program froze stay frozen: then Python examines the young objects as usual.
        """
        if gc.get_freeze_count() >= _FROZEN_BY_PYTHON:
            return
        self._count_young()
        try:
            gc.freeze()
        finally:  # also at an interrupt
            gc.unfreeze()
        self._look_at_all_if_many()

    def collect_young(self) -> None:
        """Collects the young objects and makes the rest old, then collects all objects if too many have become old."""
        self._count_young()
        gc.collect(1)
        self._look_at_all_if_many()

    def _count_young(self) -> None:
        young, middle, _ = gc.get_count()
        self._count += young + gc.get_threshold()[0] * middle

    def _look_at_all_if_many(self) -> None:
        if self._count > _MOST_AGED + self._n_old // _SHARE_AGED:
            gc.collect()
            self._count, self._n_old = 0, len(gc.get_objects(2))


class _Hold:
    """The blocks that keep the collector off now, in all threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._blocks = 0
        self._was_enabled = self._collects = False
        self._aged = _Aged()

    def begin(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._was_enabled = gc.isenabled()
                self._collects = self._was_enabled and _has_threshold()
                gc.disable()
            self._blocks += 1

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0 and self._was_enabled:
                try:
                    if self._collects and gc.get_count()[0] >= _MANY:
                        self._aged.make_old()
                finally:  # also at an interrupt, which may come during a full collection
                    gc.enable()

    def collect_once(self) -> None:
        with self._lock:
            if gc.isenabled() and _has_threshold():
                self._aged.collect_young()

    def collect_youngest(self) -> None:
        with self._lock:
            if self._collects:
                gc.collect(0)


def _has_threshold() -> bool:
    """Whether Python's collector runs by itself. `gc.set_threshold(0)` turns that off; `gc.isenabled()` stays true."""
    return gc.get_threshold()[0] > 0


_HOLD: Final = _Hold()


@contextmanager
def collector_off() -> Iterator[None]:
    """Keeps the garbage collector from running by itself meanwhile; afterwards it is on if it was on before.

    Where a program has turned the collector off, nothing is collected here either.

    Python has one collector for all threads: the last of several that ask at once turns it on again.

    A chip of hundreds of PEs is a million objects that live as long as the chip. A full collection takes as long as
    building them, and longer than most simulations. The first launches make a hundred thousand more objects, and none
    of them is garbage. So young objects in such numbers are made old afterwards, and are examined when all old objects
    are due.
    """
    _HOLD.begin()
    try:
        yield
    finally:
        _HOLD.end()


def collect_once() -> None:
    """Collects all objects that are not old, once, and makes the rest old.

    The objects of a new chip would be examined twice before they are old. All objects are collected when half a million
    have become old, so dropped chips are found. Does nothing where a program has turned the collector off.
    """
    _HOLD.collect_once()


def collect_youngest() -> None:
    """Within `collector_off`, collects the youngest objects, if the collector was on before."""
    _HOLD.collect_youngest()
