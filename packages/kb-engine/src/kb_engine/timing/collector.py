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
