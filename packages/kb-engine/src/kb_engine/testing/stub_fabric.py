"""StubFabric: a fabric with fixed times, for blocks that are tested by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.timing.clock import Clock
from kb_messages import CountedPieces, Rectangle


class StubFabric:
    """A fabric with one memory. A transfer takes 1000 ps and 10 ps for each byte, and shares no link.

    `leads_ps` are the picoseconds between each call and the start of its transfer. `most_reads` and `most_writes` are
    the most that were under way at once, from the call to the end.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.leads_ps: list[int] = []
        self.most_reads = self.most_writes = 0
        self._under_way = [0, 0]

    def path(self, src: str, owner: int) -> str:
        """The only path."""
        return f"{src} -> {owner}"

    def alone_ps(self, path: str, memory: Rectangle, write: bool) -> tuple[int, int]:
        """Picoseconds of a transfer, and picoseconds of its bytes at the memory."""
        return 1000 + 10 * memory.nbytes, 10 * memory.nbytes

    def counted(self, path: str, pieces: tuple[Rectangle, ...]) -> CountedPieces:
        """*pieces* in whole bursts of 64 bytes."""
        return CountedPieces.of(pieces, 64)

    def read(self, path: str, memory: Rectangle, start_ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        """Reads *memory* and calls *finish* with *argument* at the end."""
        self._start(False, start_ps, 1000 + 10 * memory.nbytes, finish, argument)
        self.most_reads = max(self.most_reads, self._under_way[False])

    def write(
        self,
        path: str,
        memory: Rectangle,
        start_ps: int,
        finish: Callable[[Any], None],
        argument: Any,
        atomic: bool = False,
    ) -> None:
        """Writes *memory* and calls *finish* with *argument* at the end.

        An atomic's bytes are read first, in 10 ps each.
        """
        self._start(True, start_ps, 1000 + (20 if atomic else 10) * memory.nbytes, finish, argument)
        self.most_writes = max(self.most_writes, self._under_way[True])

    def _start(self, write: bool, start_ps: int, ps: int, finish: Callable[[Any], None], argument: Any) -> None:
        def end(each: Any) -> None:
            self._under_way[write] -= 1
            finish(each)

        self._under_way[write] += 1
        self.leads_ps.append(start_ps - self._clock.now_ps)
        self._clock.call_at(start_ps + ps, end, argument)
