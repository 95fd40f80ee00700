"""ArrivalCurve: the number of bytes of a stream that have passed a point, over time.

Bytes that a source sends, and bytes that a link passes on for a stream that has the link alone, have a SteadyPace. The
bytes of streams that wait at one link follow the FairShare of the link, because all of them get the same rate. A point
*d* picoseconds behind a link sees the pace of the link *d* picoseconds later.

Design: docs/design/link-sharing.md
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import ClassVar, Final, Protocol, TypeAlias

from kb_engine.block.state_visitor import MOMENT, PART, SAME, HasState, State, Stateful, each, each_value
from kb_engine.timing.clock import Clock

NO_BYTES: Final = 1e-3
"""Fewer bytes than this are a rounding error, and nothing waits for them."""

NO_TIME_PS: Final = 2.0**-6
"""A moment that is at most this much after a whole picosecond counts as that picosecond."""

MORE: Final = 1 + 1e-9
"""Rates within this factor are equal."""


_MOST_PAST = 32
"""Changes of rate that a FairShare keeps before it forgets changes that are no longer needed."""


Line: TypeAlias = tuple[int, float, float]
"""A moment in picoseconds, the level then, and the rate in bytes a picosecond up to the next line."""


class Listener(HasState, Protocol):
    """A listener, which is notified when the rate of a FairShare rises above `ceiling`."""

    ceiling: float

    def tell(self, clock: Clock, changed_ps: int) -> None:
        """The rate is above the ceiling from *changed_ps* on."""


class SteadyPace(Stateful):
    """*nbytes* bytes that pass evenly from `start_ps` to `end_ps`."""

    __slots__ = ("end_ps", "nbytes", "rate", "start_ps")
    state: ClassVar[State] = {"nbytes": SAME, "start_ps": MOMENT, "end_ps": MOMENT}

    def __init__(self, start_ps: int, end_ps: int, nbytes: int) -> None:
        self.start_ps = start_ps
        self.end_ps = end_ps
        self.nbytes = nbytes
        self.rate = nbytes / (end_ps - start_ps) if end_ps > start_ps else inf

    def level_at(self, t_ps: int) -> float:
        """Bytes that have passed by *t_ps*."""
        if t_ps >= self.end_ps:
            return float(self.nbytes)
        return self.rate * (t_ps - self.start_ps) if t_ps > self.start_ps else 0.0

    def rate_at(self, t_ps: int) -> float:
        """Bytes a picosecond from *t_ps* on."""
        return self.rate if t_ps < self.end_ps else 0.0

    peak_since = rate_at
    """The highest rate from a moment on."""

    def lines(self, since_ps: int, until_ps: int) -> list[Line]:
        """The lines of the curve from *since_ps* to *until_ps*, in order."""
        before = (self.start_ps, 0.0, self.rate), (self.end_ps, float(self.nbytes), 0.0)
        return [line for line in before if line[0] < until_ps and (line[2] == 0.0 or self.end_ps > since_ps)]


class FairShare(Stateful):
    """The bytes that a link has passed on for each of the streams that wait at it, in one busy period of the link.

    This is the virtual time of fair queueing (Parekh and Gallager, IEEE/ACM ToN 1 (3), 1993), counted in bytes: a
    stream of n bytes that begins to wait at level L has left the link at level L + n. `audience` hears of changes.
    `longest_ps` is the longest time that any listener looks back. Users that `hold` the pace from a moment on are
    apart. `_highs` are the past rates that no later one has reached, each with the moment up to which it was the rate.
    """

    __slots__ = ("_held", "_highs", "_past", "audience", "level", "longest_ps", "rate", "t_ps")
    # The level counts from the begin of the busy period, so two equal states have equal levels.
    state: ClassVar[State] = {
        "t_ps": MOMENT,
        "level": SAME,
        "rate": SAME,
        "longest_ps": SAME,
        "audience": each(PART),
        "_held": each_value(MOMENT, key=PART),
        "_past": each(MOMENT, SAME, SAME),
        "_highs": each(MOMENT, SAME),
    }

    end_ps: Final = inf
    """When the last byte has passed, which is not known."""

    def __init__(self, now_ps: int) -> None:
        self.t_ps = now_ps
        self.level = 0.0
        self.rate = 0.0
        self.longest_ps = 0
        self.audience: dict[Listener, None] = {}
        self._held: dict[HasState, int] = {}
        self._past: list[tuple[int, float, float]] = []
        self._highs: list[tuple[int, float]] = []

    def level_at(self, t_ps: int) -> float:
        """Bytes that each stream has got by *t_ps*, which is at most `longest_ps` ago."""
        if t_ps >= self.t_ps:
            return self.level + self.rate * (t_ps - self.t_ps)
        for since_ps, level, rate in reversed(self._past):
            if t_ps >= since_ps:
                return level + rate * (t_ps - since_ps)
        return 0.0

    def rate_at(self, t_ps: int) -> float:
        """Bytes a picosecond for each stream, from *t_ps* on."""
        if t_ps >= self.t_ps:
            return self.rate
        for since_ps, _, rate in reversed(self._past):
            if t_ps >= since_ps:
                return rate
        return 0.0

    def peak_since(self, t_ps: int) -> float:
        """The highest rate from *t_ps* to now."""
        if t_ps >= self.t_ps:
            return self.rate
        highest, highs = self.rate, self._highs
        number = bisect_right(highs, (t_ps, inf))
        if number < len(highs) and highs[number][1] > highest:
            highest = highs[number][1]
        return highest

    def lines(self, since_ps: int, until_ps: int) -> list[Line]:
        """The level from *since_ps* to *until_ps*, which is not after now, in order."""
        found = [(self.t_ps, self.level, self.rate)] if self.t_ps < until_ps else []
        if self.t_ps > since_ps:
            for line in reversed(self._past):
                if line[0] < until_ps:
                    found.append(line)
                if line[0] <= since_ps:
                    break
        return found[::-1]

    def changes_after(self, t_ps: int) -> list[int]:
        """The moments after *t_ps* at which the rate changed, the latest first."""
        moments = [self.t_ps] if self.t_ps > t_ps else []
        for since_ps, _, _ in reversed(self._past):
            if since_ps <= t_ps:
                break
            moments.append(since_ps)
        return moments

    def rises_after(self, t_ps: int) -> list[int]:
        """The moments after *t_ps* at which the rate rose, the earliest first."""
        rises, rate, changed_ps = [], self.rate, self.t_ps
        for since_ps, _, before in reversed(self._past):
            if changed_ps <= t_ps:
                break
            if rate > before:
                rises.append(changed_ps)
            rate, changed_ps = before, since_ps
        return rises[::-1]

    def hold(self, holder: HasState, since_ps: int) -> None:
        """Keeps the pace from *since_ps* on, until *holder* calls `release`."""
        self._held.setdefault(holder, since_ps)

    def release(self, holder: HasState) -> None:
        """Ends the `hold` of *holder*."""
        self._held.pop(holder, None)

    def join(self, listener: Listener, delay_ps: int, now_ps: int) -> float:
        """Notifies *listener*, who sees the pace *delay_ps* later, of changes from now on.

        Returns the highest rate from now on.
        """
        if delay_ps > self.longest_ps:
            self.longest_ps = delay_ps
        self.audience[listener] = None
        seen_ps = now_ps - delay_ps
        return self.rate if seen_ps >= self.t_ps else self.peak_since(seen_ps)

    def look_back(self, delay_ps: int) -> None:
        """Keeps the pace of the last *delay_ps* picoseconds from now on."""
        if delay_ps > self.longest_ps:
            self.longest_ps = delay_ps

    def change(self, now_ps: int, rate: float) -> None:
        """From *now_ps* on each stream gets *rate*."""
        if now_ps > self.t_ps:
            past, highs, before = self._past, self._highs, self.rate
            past.append((self.t_ps, self.level, before))
            while highs and highs[-1][1] <= before:
                highs.pop()
            highs.append((now_ps, before))
            if len(past) > _MOST_PAST:
                self._forget(min([now_ps - self.longest_ps, *self._held.values()]))
            self.level += before * (now_ps - self.t_ps)
            self.t_ps = now_ps
        self.rate = rate

    def announce(self, clock: Clock) -> None:
        """Notifies the audience of the rate, which has changed."""
        rate = self.rate
        for listener in self.audience:
            if rate > listener.ceiling:
                listener.tell(clock, self.t_ps)

    def _forget(self, before_ps: int) -> None:
        past = self._past
        first = 0
        while first + 1 < len(past) and past[first + 1][0] <= before_ps:
            first += 1
        del past[:first]
        del self._highs[: bisect_right(self._highs, (before_ps, inf))]


ArrivalCurve: TypeAlias = SteadyPace | FairShare
