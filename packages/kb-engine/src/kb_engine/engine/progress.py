"""The guard against a simulation that goes on without getting anywhere: a block that schedules itself for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kb_engine.block.stage_server import StageServer
from kb_engine.timing.clock import HOUSEKEEPING_INTERVAL

NO_PROGRESS_EVENTS: Final = 1 << 22
"""Source: assumed. Some seconds of simulation; a block that counts cycles one by one gets through a long tile."""


class ProgressGuard:
    """Called at every housekeeping of the clock. Looks once in *most_events* entries, rounded up to housekeepings,
    whether a stage service has ended since it looked last, and calls *stuck* if none has.

    Summing up over all servers is due so rarely that it costs nothing; so it takes up to twice as long to notice.
    """

    def __init__(self, servers: Sequence[StageServer], most_events: int, stuck: Callable[[int], None]) -> None:
        self._servers = servers
        self._stuck = stuck
        self._interval = -(-most_events // HOUSEKEEPING_INTERVAL)
        self.start()

    def start(self) -> None:
        """A launch begins: what came before is no sign of standing still."""
        self._left = self._interval
        self._served = -1

    def look(self) -> None:
        """The clock's housekeeping."""
        self._left -= 1
        if self._left:
            return
        served = sum(server.served for server in self._servers)
        if served == self._served:
            self._stuck(self._interval * HOUSEKEEPING_INTERVAL)
        self._served, self._left = served, self._interval
