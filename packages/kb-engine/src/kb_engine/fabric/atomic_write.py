"""AtomicWrite: an atomic at its memory, which reads bytes and writes them in one request."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve
from kb_engine.fabric.transfer_rows import WatchedWrite


class AtomicWrite(WatchedWrite):
    """A write whose bytes the memory reads first.

    The read begins when the last operand byte has come, and the write follows it at once, so nothing comes in between.
    For the op log the whole time at the memory is one part of the service.
    """

    __slots__ = ()

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """Bytes that come wait for the last one."""

    def hand_over(self, now_ps: int) -> None:
        """Does nothing: a request that is served next comes before the atomic."""

    def ask(self, then: Callable[[int], None]) -> None:
        """Asks for the read, and, once it has its time, for the write behind it."""

        def write(_: int, read_ps: int) -> None:
            self._memory.request(self._rectangle, read_ps, True, lambda _, committed_ps: then(committed_ps))

        self._memory.request(self._rectangle, 0, False, write)

    def finish(self, now_ps: int) -> int:
        """Reads and writes, because the last byte has come. Returns the time of the commit."""
        self._holders[:] = [self.op_id] * len(self._holders)
        _, read_ps = self._memory.reserve(now_ps, self._rectangle, now_ps, False)
        _, self._committed_ps = self._memory.reserve(now_ps, self._rectangle, read_ps, True)
        return self._committed_ps
