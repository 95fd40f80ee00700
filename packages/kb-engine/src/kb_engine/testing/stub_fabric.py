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
        self._reads = self._writes = 0

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

        def end(each: Any) -> None:
            self._reads -= 1
            finish(each)

        self._reads += 1
        self.most_reads = max(self.most_reads, self._reads)
        self._start(memory, start_ps, end, argument)

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

        def end(each: Any) -> None:
            self._writes -= 1
            finish(each)

        self._writes += 1
        self.most_writes = max(self.most_writes, self._writes)
        self._start(memory, start_ps, end, argument, 10 * memory.nbytes if atomic else 0)

    def _start(
        self, memory: Rectangle, start_ps: int, end: Callable[[Any], None], argument: Any, before_ps: int = 0
    ) -> None:
        self.leads_ps.append(start_ps - self._clock.now_ps)
        self._clock.call_at(start_ps + 1000 + before_ps + 10 * memory.nbytes, end, argument)
