"""Python's garbage collector, kept out of work that makes or uses a million objects that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the garbage collector from running by itself meanwhile; afterwards it is on if it was on before.

    A chip of hundreds of PEs is a million objects that live as long as the chip. A look at all of them takes as long as
    building them, and longer than most simulations.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def look_once() -> None:
    """Have the garbage collector look at all objects that are not old, now, and make them old.

    The objects of a new chip would be looked at twice before they are old. Then they are looked at as often as any old
    objects, so a chip that was dropped is found.
    """
    if gc.isenabled():
        gc.collect(1)
