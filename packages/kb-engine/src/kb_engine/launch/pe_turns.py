"""PeTurns: which launch of a stream a PE runs, and which launches wait for it.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kb_engine.launch.launch import Launch
from kb_engine.timing.clock import Clock

Waited = Callable[[str, Launch, int, int, int], None]
"""Notes that a launch waited for a PE: the PE, the launch, the begin and the end of the wait, and the launch before."""


class _Arrival(NamedTuple):
    """A launch that has reached a PE: when it arrived, when it is to begin, and the function for its end there."""

    launch: Launch
    arrived_ps: int
    target_ps: int
    done: Callable[[], None]


class PeTurns:
    """The launches of streams on each PE, in the order in which io_cpus passed them on. The first one has the PE.

    All PEs have one order, so launches whose programs wait for each other cannot block each other. `on_waited` is
    called for each wait of a launch that has come to a PE.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.on_waited: Waited | None = None
        self._order: dict[str, deque[int]] = {}
        self._arrived: dict[tuple[str, int], _Arrival] = {}

    def enter(self, number: int, pe_ids: Sequence[str]) -> None:
        """Gives launch *number* its turn on each of *pe_ids*, behind the launches there."""
        for pe_id in pe_ids:
            self._order.setdefault(pe_id, deque()).append(number)

    def reach(self, launch: Launch, pe_id: str, target_ps: int, done: Callable[[], None]) -> None:
        """Notes that *launch* reaches PE *pe_id* now. It begins at *target_ps*, or when it has the PE.

        `done()` is called when it has ended there.
        """
        arrival = _Arrival(launch, self._clock.now_ps, target_ps, done)
        if self._order[pe_id][0] == launch.number:
            launch.reach(pe_id, target_ps, lambda: self._leave(pe_id, arrival))
        else:
            self._arrived[pe_id, launch.number] = arrival

    def holder(self, number: int) -> tuple[str, int] | None:
        """A PE that launch *number* has reached and waits for, and the launch that has it; None if there is none."""
        for pe_id, waiting in self._arrived:
            if waiting == number:
                return pe_id, self._order[pe_id][0]
        return None

    def _leave(self, pe_id: str, arrival: _Arrival) -> None:
        before = self._order[pe_id].popleft()
        if self._order[pe_id]:
            self._give(pe_id, self._order[pe_id][0], before)
        else:
            del self._order[pe_id]
        arrival.done()

    def _give(self, pe_id: str, number: int, before: int) -> None:
        """Gives the PE to launch *number*, if that has come. Launch *before* has left it."""
        arrival = self._arrived.pop((pe_id, number), None)
        if arrival is None:
            return
        now_ps, due_ps = self._clock.now_ps, max(arrival.arrived_ps, arrival.target_ps)
        launch = arrival.launch
        if now_ps > due_ps and self.on_waited is not None:
            self.on_waited(pe_id, launch, due_ps, now_ps, before)
        launch.reach(pe_id, arrival.target_ps, lambda: self._leave(pe_id, arrival), now_ps)
