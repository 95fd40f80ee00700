"""StubFabric: a fabric with fixed times, for blocks that are tested by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.timing.clock import Clock
from kb_messages import Rectangle


class StubFabric:
    """A fabric with one memory. A transfer takes 1000 ps and 10 ps for each byte, and shares no link.

    `leads_ps` are the picoseconds between each call and the start of its transfer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.leads_ps: list[int] = []

    def path(self, src: str, owner: int) -> str:
        """The only path."""
        return f"{src} -> {owner}"

    def read(self, path: str, memory: Rectangle, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """As `Fabric.read`."""
        self.leads_ps.append(start_ps - self._clock.now_ps)
        self._clock.call_at(start_ps + 1000 + 10 * memory.nbytes, finish, argument)

    write = read
