"""IncomingWrite: a write whose bytes come to a memory, and are handed to the memory in parts where that matters."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.state_visitor import DEADLINE, MOMENT, OP, PART, SAME, State, Stateful, each, only_with
from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve, FairShare, SteadyPace
from kb_messages import CountedPieces, Rectangle, cut


class IncomingWrite(Stateful):
    """The write of *rectangle* to *memory*, from its start to the commit.

    A memory works on bytes in the order in which they come. When another request comes in between, the memory gets the
    bytes of the write that have come, in whole bursts, and the other bytes later. Without other requests it gets the
    write as a whole. `came_ps` is the arrival of the first byte that the memory could not get yet, as far as other
    requests decide it.
    """

    __slots__ = ("_committed_ps", "_memory", "_n_handed", "_pace", "_payload", "_rectangle", "_since_ps", "came_ps")
    state: ClassVar[State] = {  # without the rectangle, which `become` replaces
        "_n_handed": SAME,
        "_committed_ps": DEADLINE,
        "_pace": each(MOMENT, PART, SAME, SAME),
        "came_ps": only_with("_pace", MOMENT),
        "_since_ps": only_with("_pace", MOMENT),
    }

    def __init__(self, memory: MemoryComponent[Any], rectangle: Rectangle) -> None:
        self._memory = memory
        self._rectangle = rectangle
        self._pace: list[tuple[int, ArrivalCurve, int, float]] = []
        self._payload = 1.0
        self._n_handed = 0
        self._since_ps = self._committed_ps = 0
        self.came_ps = 0

    def has_headers(self, payload: float) -> None:
        """Notes that of the bytes that come, the share *payload* belongs to the rectangle. The others are headers."""
        self._payload = payload

    def become(self, rectangle: Rectangle) -> None:
        """Replaces the rectangle by *rectangle*, which has the same shape and lies at the same place in its bursts."""
        self._rectangle = rectangle

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """From *from_ps* on, the bytes that have come are the level of *pace*, *delay_ps* ago, less *offset*.

        The first call gives the moment of the first byte.
        """
        if not self._pace:
            self.came_ps = self._since_ps = from_ps
        self._pace.append((from_ps, pace, delay_ps, offset))
        if type(pace) is FairShare:
            pace.hold(self, from_ps - delay_ps)

    @property
    def comes_steadily(self) -> bool:
        """Whether all bytes come at one pace, which does not change."""
        return len(self._pace) == 1 and type(self._pace[0][1]) is SteadyPace

    def moments(self, now_ps: int) -> list[int]:
        """The moments before *now_ps* from which on bytes come that the memory has not got, or come faster.

        Bytes that come faster than the memory takes them make up for no time in which they came more slowly.
        """
        if self.came_ps >= now_ps or not self._pace:
            return []
        found = [self.came_ps]
        ends_ps = [from_ps for from_ps, *_ in self._pace[1:]] + [now_ps]
        for (from_ps, pace, delay_ps, _), end_ps in zip(self._pace, ends_ps, strict=True):
            if from_ps > self.came_ps:
                found.append(from_ps)
            if type(pace) is FairShare:
                rises_ps = pace.rises_after(max(from_ps, self.came_ps) - delay_ps)
                found += [rise_ps + delay_ps for rise_ps in rises_ps if rise_ps + delay_ps < end_ps]
        return found

    def hand_over(self, now_ps: int) -> None:
        """Gives the memory the bytes that came before *now_ps*, because another request is served next."""
        n_came, rate = self._came_before(now_ps)
        n_whole = self._whole_bursts(int(n_came)) if n_came >= 1 else 0
        self.came_ps = max(self.came_ps, now_ps)
        if n_whole > self._n_handed:
            self._reserve(self._parts(self._n_handed, n_whole), now_ps)
            self._n_handed = n_whole
            late_ps = int((n_came - n_whole) / rate) if rate else 0
            self._since_ps = max(self._since_ps, now_ps - 1 - late_ps)

    def ask(self, then: Callable[[int], None]) -> None:
        """Sends the request, because the last byte has come to a memory that reorders.

        `then` gets the time of the commit.
        """
        self._memory.request(self._rectangle, 0, True, lambda _, committed_ps: then(committed_ps))

    def finish(self, now_ps: int) -> int:
        """Gives the memory the rest, because the last byte has come. Returns the time of the commit."""
        if self._n_handed:
            self._reserve(self._parts(self._n_handed, self._rectangle.nbytes), now_ps)
        else:
            self._reserve([self._rectangle], now_ps)
        for _, pace, _, _ in self._pace:
            if type(pace) is FairShare:
                pace.release(self)
        return self._committed_ps

    def _came_before(self, now_ps: int) -> tuple[float, float]:
        """Bytes that came before *now_ps*, and bytes a picosecond then."""
        last_ps = now_ps - 1
        for from_ps, pace, delay_ps, offset in reversed(self._pace):
            if last_ps >= from_ps:
                n_came = (pace.level_at(last_ps - delay_ps) - offset) * self._payload
                return min(n_came, float(self._rectangle.nbytes)), pace.rate_at(last_ps - delay_ps) * self._payload
        return 0.0, 0.0

    def _whole_bursts(self, nbytes: int) -> int:
        """*nbytes*, less the bytes of a burst that is not full, or of a piece that has not come whole."""
        rectangle = self._rectangle
        if isinstance(rectangle, CountedPieces):
            return rectangle.whole(nbytes)
        row, within = divmod(nbytes, rectangle.row_nbytes)
        if rectangle.stride == rectangle.row_nbytes:
            within = nbytes
        rest = (rectangle.base + row * rectangle.stride + nbytes % rectangle.row_nbytes) % self._memory.burst_nbytes
        return nbytes - min(rest, within)

    def _parts(self, start: int, end: int) -> list[Rectangle]:
        rectangle = self._rectangle
        if isinstance(rectangle, CountedPieces):
            return [rectangle.between(start, end)] if start < end else []
        return cut(rectangle, start, end)

    def _reserve(self, parts: list[Rectangle], now_ps: int) -> None:
        for part in parts:
            _, committed = self._memory.reserve(self._since_ps, part, now_ps, True)
            self._committed_ps = max(self._committed_ps, committed)


class MemoryRequests(Stateful):
    """The requests to one memory. All paths to the memory share this object.

    `awaited` counts the requests whose arrival is an event. `promised_ps` is the arrival of the last request that was
    reserved before it arrived; no request may arrive earlier. `writes` are the writes whose last byte has not come.

    With an op log, `holders` are the ops whose requests the memory got last, at the port of reads and at the port of
    writes. Where writes have no port of their own, all requests take the port of reads. -1 stands for other requests.
    """

    __slots__ = ("awaited", "holders", "promised_ps", "writes")
    state: ClassVar[State] = {"awaited": SAME, "promised_ps": DEADLINE, "holders": each(OP), "writes": each(PART)}

    def __init__(self) -> None:
        self.awaited = 0
        self.promised_ps = 0
        self.holders = [-1, -1]
        self.writes: list[IncomingWrite] = []

    def is_idle(self, now_ps: int) -> bool:
        """Whether no request is on its way at *now_ps*."""
        return not (self.awaited or self.writes) and self.promised_ps <= now_ps

    def saved(self) -> tuple[int, tuple[int, ...]]:
        """The state that requests leave behind, for `put_back`."""
        return self.promised_ps, tuple(self.holders)

    def put_back(self, state: tuple[int, tuple[int, ...]]) -> None:
        """Restores *state*, while no request is on its way."""
        self.promised_ps = state[0]
        self.holders[:] = state[1]

    def forget_ops(self) -> None:
        """Forgets the ops so far, because another op log begins."""
        self.holders[:] = [-1] * len(self.holders)

    def hand_over(self, now_ps: int, finishing: IncomingWrite | None = None) -> None:
        """Gives the memory the bytes of all writes that have come by now, in their order, before another request is
        served.

        The bytes are given in steps, from each moment to the next at which a write began or came faster. *finishing* is
        a write whose last byte comes now; its last bytes are left to its `finish`.
        """
        if finishing is not None and len(self.writes) == 1 and finishing.comes_steadily:
            return  # there is no moment between its first byte and now, and `finish` gives all of it
        writes = sorted(self.writes, key=attrgetter("came_ps"))
        for moment_ps in sorted({moment for write in writes for moment in write.moments(now_ps)}):
            for write in writes:
                if write.came_ps < moment_ps:
                    write.hand_over(moment_ps)
        for write in writes:
            if write is not finishing:
                write.hand_over(now_ps)
