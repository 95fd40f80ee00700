"""FlowGroup: the streams on a link whose bytes come at one pace, with one delay."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import ClassVar, Final, Protocol, TypeAlias

from simpy.events import NORMAL

from kb_engine.block.state_visitor import BY_HAND, MOMENT_OR_NONE, PART, SAME, State, Stateful, StateVisitor, each
from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve, FairShare, SteadyPace
from kb_engine.fabric.sharing.stream import Stream
from kb_engine.timing.clock import Clock

_ANY_RATE: Final = -1.0
"""The ceiling of a link that wants to hear of every change."""


GroupKey: TypeAlias = tuple[ArrivalCurve, int]
"""The pace of a group, and its delay in picoseconds. A link has one group of each."""


class GroupLink(Protocol):
    """The interface of a link for the groups on it."""

    def hear(self, group: FlowGroup) -> None:
        """Takes a change of the rate of *group*, which reaches this link now."""

    def takes(self, more: float) -> bool:
        """Promises *more* bytes a picosecond to a group. False if the link has no room, or watches the rates."""


Waiting: TypeAlias = tuple[float, int, Stream]
"""A stream's lead, by which the level of the link has to exceed the level of the pace for the stream to catch up.

An order among equal leads and the stream follow.
"""


def _order(waiting: Waiting) -> tuple[float, int]:
    return waiting[:2]


class FlowGroup(Stateful):
    """The streams on one link whose bytes have the pace and the delay of *key*.

    Streams that `passing` holds leave at the pace at which they come. The others wait: they have bytes that came and
    have not left, and more bytes are to come; `n_waiting` counts them. A group without streams is dropped. `rate` is
    the rate of one stream, which is up to date where the link watches the rates. The link hears of a rate above the
    `ceiling` for which it has no room.
    """

    __slots__ = ("_heard_ps", "_link", "_waiting", "ceiling", "delay_ps", "key", "n_waiting", "pace", "passing", "rate")
    state: ClassVar[State] = {
        "_link": BY_HAND,
        "pace": PART,
        "delay_ps": SAME,
        "rate": SAME,
        "ceiling": SAME,
        "n_waiting": SAME,
        "_heard_ps": MOMENT_OR_NONE,
        "passing": each(PART),
        "_waiting": each(SAME, BY_HAND, PART),
    }

    def __init__(self, key: GroupKey, now_ps: int, link: GroupLink) -> None:
        self.key = key
        pace, delay_ps = self.pace, self.delay_ps = key
        self._link = link
        if type(pace) is FairShare:
            self.rate = self.ceiling = pace.join(self, delay_ps, now_ps)
        else:
            self.rate = self.ceiling = pace.peak_since(now_ps - delay_ps)
        self.passing: dict[Stream, None] = {}
        self.n_waiting = 0
        self._heard_ps = -1
        self._waiting: list[Waiting] = []

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*, with the waiting streams in their order instead of that of the heap."""
        self._waiting.sort(key=_order)
        over.call(self._link.hear)
        super().visit_state(over)

    @property
    def remainder(self) -> object:
        """The state that is left when all bytes have come."""
        return self.rate, self.ceiling, self.n_waiting, [stream.remainder for stream in self.passing]

    @property
    def is_steady(self) -> bool:
        """Whether the rate is the same until the streams end."""
        return type(self.pace) is SteadyPace

    def came_by(self, now_ps: int) -> float:
        """The level of the pace at the link at *now_ps*, in bytes."""
        return self.pace.level_at(now_ps - self.delay_ps)

    def refresh(self, now_ps: int) -> float:
        """Updates the rate to that of *now_ps*."""
        rate = self.rate = self.pace.rate_at(now_ps - self.delay_ps)
        return rate

    def promise(self, now_ps: int) -> float:
        """Sets the ceiling to the highest rate from *now_ps* on that is decided so far, and returns the ceiling."""
        self.ceiling = self.pace.peak_since(now_ps - self.delay_ps)
        return self.ceiling

    def promise_more(self, rate: float) -> None:
        """Raises the ceiling of a pace that can change by *rate*."""
        if not self.is_steady:
            self.ceiling += rate

    def hear_all(self, clock: Clock, now_ps: int) -> None:
        """From *now_ps* on, hears of every change of rate, also of changes that are on their way."""
        pace, delay_ps = self.pace, self.delay_ps
        self.rate = pace.rate_at(now_ps - delay_ps)
        self.ceiling = _ANY_RATE
        if type(pace) is FairShare:
            for changed_ps in pace.changes_after(now_ps - delay_ps):
                clock.call_at(changed_ps + delay_ps, self._link.hear, self)

    def tell(self, clock: Clock, changed_ps: int) -> None:
        """The rate of the pace is above the ceiling from *changed_ps* on. A link that has room for it promises it."""
        ceiling = self.ceiling
        if ceiling != _ANY_RATE:
            rate = self.pace.rate
            if self._link.takes((rate - ceiling) * len(self.passing)):
                self.ceiling = rate
                return
        heard_ps = changed_ps + self.delay_ps
        if heard_ps != self._heard_ps:
            self._heard_ps = heard_ps
            clock.push((heard_ps, NORMAL, next(clock.event_order), self._is_told, None))

    def _is_told(self, _: None) -> None:
        self._heard_ps = -1  # another change in this picosecond has to be heard too
        self._link.hear(self)

    def retire(self) -> None:
        """Retires an empty group: hears of no change, and drops the streams that waited, which refer to the group."""
        self._waiting.clear()
        if type(self.pace) is FairShare:
            del self.pace.audience[self]

    def add_waiting(self, stream: Stream, order: int) -> None:
        """*stream* waits, and more of its bytes are to come."""
        self.n_waiting += 1
        heappush(self._waiting, (stream.own_offset - stream.offset, order, stream))

    def drop_waiting(self) -> None:
        """Drops a stream that waited here: it has all its bytes, has left, or comes at another pace now."""
        self.n_waiting -= 1

    def catches_up_after(self, now_ps: int, level: float, rate: float) -> float:
        """Picoseconds until a stream that waits has no bytes left to send; infinity if none will have.

        The share of the link is at *level* and rises by *rate*, faster than bytes come.
        """
        first = self.next_to_catch_up()
        if first is None:
            return inf
        return (first[0] - level + self.pace.level_at(now_ps - self.delay_ps)) / (rate - self.rate)

    def next_to_catch_up(self) -> Waiting | None:
        """The stream that has no bytes left to send first, if the link gives more than comes in, behind its lead."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            lead, _, stream = first
            is_old = stream.group is not self or not stream.waits or stream.complete
            if not is_old and stream.own_offset - stream.offset == lead:
                return first
            heappop(waiting)
        return None
