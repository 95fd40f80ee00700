"""The guard against a simulation that goes on for ever: a block that schedules itself again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer
from kb_engine.timing.clock import HOUSEKEEPING_INTERVAL

NO_PROGRESS_EVENTS: Final = 1 << 22
"""Source: assumed. Some seconds of simulation; a block that counts cycles one by one gets through a long tile."""


class ProgressGuard(Observer):
    """Calls *stuck*, with a number of events, when no stage service has ended for that long.

    It looks once in *most_events* events, rounded up to intervals of the clock's housekeeping. So it notices after at
    most twice as many events. Looking that rarely makes the sum over all servers cheap.
    """

    def __init__(self, most_events: int, stuck: Callable[[int], None]) -> None:
        self._stuck = stuck
        self._interval = -(-most_events // HOUSEKEEPING_INTERVAL)
        self.on_launch()

    def on_built(self, chip: Chip) -> None:
        """Look up the servers whose services are counted."""
        self._servers = chip.servers
        self._clock = chip.clock

    def on_launch(self) -> None:
        """Start anew: a simulation may have stood still before the launch."""
        self._left = self._interval
        self._served = -1

    def on_housekeeping(self) -> None:
        """Count down, and look when the count is over."""
        if self._clock.is_idle:
            return
        self._left -= 1
        if self._left:
            return
        served = sum(server.served for server in self._servers)
        if served == self._served:
            self._stuck(self._interval * HOUSEKEEPING_INTERVAL)
        self._served, self._left = served, self._interval
