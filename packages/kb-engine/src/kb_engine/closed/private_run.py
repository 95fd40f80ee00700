"""A private run: a command runs at once, from its begin to its end, while the rest of the chip stands still.

The blocks are those of the chip, and run the code that they always run. Only the heap of the clock is another one
(`Clock.apart`): what the command schedules goes there, and all other entries wait. Afterwards the clock stands where it
stood, and what was recorded is no longer in the op log but in an `Outcome`, relative to the begin of the command. The
blocks, memories and links are left as the run left them; `footprint` puts them back.

**The seam for whoever skips a part of the run:** `run_apart` calls `look(heap)` between two entries. Entries are
`(time, priority, ticket, function, argument)`. `look` may shorten what is to come (a feeder that jumps over tiles), and
may add to the records of the run. It must not run entries itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.timing.clock import Clock

Look = Callable[[list[Any]], None]
"""Called with the heap of a private run between two of its entries."""


def run_apart(clock: Clock, begin: Callable[[], None], look: Look | None = None) -> int:
    """Call *begin* now, and run all that follows from it, apart from the other entries of *clock*.

    Returns how many picoseconds after now the last entry ran.
    """
    began_ps = clock.now_ps
    with clock.apart() as heap:
        begin()
        if look is None:
            clock.run_out()
            return clock.now_ps - began_ps
        while heap:
            clock.run_next()
            look(heap)
        return clock.now_ps - began_ps
