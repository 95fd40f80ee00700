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


@contextmanager
def lasting_objects() -> Iterator[None]:
    """As `collector_off`, while objects are made that live long. Afterwards the collector takes them for old ones.

    Otherwise the collector would look at all of them twice before it takes them for old ones, in the launches that come
    next. A process that keeps objects out of the collector's sight (`gc.freeze`) goes without.
    """
    with collector_off():
        yield
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
