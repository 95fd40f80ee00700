"""Python's garbage collector, kept out of work that makes or uses a million objects that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final


class _Hold:
    """The blocks that keep the collector off now, in all threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._blocks = 0
        self._collects = False

    def begin(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._collects = gc.isenabled()
                gc.disable()
            self._blocks += 1

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0 and self._collects:
                gc.enable()


_HOLD: Final = _Hold()


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the garbage collector from running by itself meanwhile; afterwards it is on if it was on before.

    Python has one collector for all threads: the last of several that ask at once turns it on again.

    A chip of hundreds of PEs is a million objects that live as long as the chip. A look at all of them takes as long as
    building them, and longer than most simulations.
    """
    _HOLD.begin()
    try:
        yield
    finally:
        _HOLD.end()


def look_once() -> None:
    """Have the garbage collector look at all objects that are not old, now, and make them old.

    The objects of a new chip would be looked at twice before they are old. Then they are looked at as often as any old
    objects, so a chip that was dropped is found.
    """
    if gc.isenabled():
        gc.collect(1)
