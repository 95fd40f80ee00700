"""LinkStreams: the streams on one direction of a link, in groups of one pace: which pass, which wait, how each leaves.

A stream that passes leaves at the pace at which it comes. The streams that wait share one rate, so one level of bytes,
the link's FairShare, says of each how far it is. The link has promised every group that passes a rate, its ceiling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, ClassVar, Final, Protocol

from simpy.events import NORMAL

from kb_engine.block.state_visitor import BY_HAND, MOMENT_OR_NONE, SAME, SIZE, State, Stateful, StateVisitor
from kb_engine.fabric.sharing.arrival_curve import MORE, NO_BYTES, ArrivalCurve, FairShare, SteadyPace
from kb_engine.fabric.sharing.flow_group import FlowGroup, GroupKey
from kb_engine.fabric.sharing.stream import HERE, Passage, Stream
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import Rate


class Departures(Stateful):
    """The end of a link, which sends heads, tails and changes of pace on.

    *deliver* gets each passage that has reached the end of its leg.
    """

    __slots__ = ("_clock", "_deliver")

    def __init__(self, clock: Clock, deliver: Callable[[Passage], None]) -> None:
        self._clock = clock
        self._deliver = deliver

    def _send_head(self, stream: Stream, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """The head of *stream* leaves now."""
        behind = stream.go_on(pace, delay_ps, offset)
        if behind is None:
            self._arrives(stream, pace, delay_ps, offset)
            return
        clock = self._clock
        clock.push((clock.now_ps + stream.after_ps, NORMAL, next(clock.event_order), behind.hop.arrive, behind))

    def _tell_next(self, stream: Stream, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """*stream*, whose head has left, leaves at another pace from now on."""
        behind = stream.behind
        if behind is None:
            self._arrives(stream, pace, delay_ps, offset)
            return
        clock, change = self._clock, (behind, pace, delay_ps, offset)
        clock.push((clock.now_ps + stream.after_ps, NORMAL, next(clock.event_order), behind.hop.regroup, change))

    def _send_tail(self, stream: Stream) -> None:
        """The last byte of *stream* leaves now."""
        clock, behind = self._clock, stream.behind
        next_ps = clock.now_ps + stream.after_ps
        if behind is not None:
            clock.push((next_ps, NORMAL, next(clock.event_order), behind.hop.complete, behind))
        else:
            self._expect(stream.passage, stream.passage.ends_ps(next_ps))

    def _arrives(self, stream: Stream, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """The bytes of *stream* that leave from now on come to the end of the leg."""
        passage = stream.passage
        passage.comes(self._clock.now_ps + stream.after_ps, pace, delay_ps, offset)
        if type(pace) is SteadyPace:
            self._expect(passage, passage.ends_ps(pace.end_ps + delay_ps))
        else:
            assert type(pace) is FairShare
            pace.look_back(delay_ps)
            passage.is_due(-1)

    def _expect(self, passage: Passage, due_ps: int) -> None:
        passage.is_due(due_ps)
        clock = self._clock
        clock.push((due_ps, NORMAL, next(clock.event_order), self._arrived, passage))

    def _arrived(self, passage: Passage) -> None:
        """The last byte is at the end of the leg now, unless a later change has moved that moment."""
        if passage.due_ps == self._clock.now_ps:
            passage.is_due(-1)
            self._deliver(passage)


LOOSE: Final = object()
"""The group of a stream that passes at a SteadyPace on a link that does not watch the rates."""


class SharedFlow(Protocol):
    """The interface of a Flow for shared links: all transfers of one size over one leg."""

    @property
    def under_way(self) -> int:
        """The number of transfers that have begun and are not at the end of the leg."""


def _order(entry: Any) -> Any:
    return entry[:2]


def _visit_if_ahead(over: StateVisitor, part: Stream | FlowGroup, now: int) -> None:
    """Hands *part* to *over*. Of a part whose bytes have all come, only its remainder matters."""
    if part.pace.end_ps + part.delay_ps > now:
        over.part(part)
    else:
        over.same(part.remainder)


class LinkStreams(Departures, ABC):
    """The streams on a link of *rate*. *deliver* gets each passage that has reached the end of its leg.

    A stream that is alone on the link is in no group. `_watches` says that the link hears of every change of rate.
    `_divides` says that it divides its bandwidth at the end of this picosecond; the streams in `_heads` leave then.
    """

    state: ClassVar[State] = {
        "_promised": SAME,
        "_divides": SAME,
        "_watches": SAME,
        "_n_waiting": SAME,
        "_slowest": SAME,
        "_tick_ps": MOMENT_OR_NONE,
        "_heads": SIZE,
        "_finishes": SIZE,
        "_loose": SIZE,
        "_groups": SIZE,
        "_ends": SIZE,
        "_alone": BY_HAND,
        "_alone_pace": BY_HAND,
        "_share": BY_HAND,
    }
    __slots__ = (*state, "_bandwidth", "_flows", "_most", "_order")

    def __init__(self, clock: Clock, rate: Rate, deliver: Callable[[Passage], None]) -> None:
        super().__init__(clock, deliver)
        self._bandwidth = rate.per_ps
        self._most = self._bandwidth * MORE
        self._order = count()
        self._flows: list[SharedFlow] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Resets the link to an idle link that nothing has passed."""
        self._groups: dict[GroupKey, FlowGroup] = {}
        self._share = FairShare(0)
        self._n_waiting = 0
        self._slowest = inf
        self._finishes: list[tuple[float, int, Stream]] = []
        self._ends: list[tuple[int, int, Stream, SteadyPace]] = []
        self._loose: dict[Stream, None] = {}
        self._alone: Stream | None = None
        self._alone_pace = SteadyPace(0, 0, 0)
        self._promised = 0.0
        self._watches = False
        self._tick_ps = -1
        self._divides = False
        self._heads: list[Stream] = []

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the streams to *over*. Of streams that have ended, only the rate is left.

        The order matters to a visitor that moves parts on: whether a part is ahead of now is asked before it moves.
        """
        now = self._clock.now_ps
        alone = self._alone if self._alone_pace.end_ps > now else None
        super().visit_state(over)
        over.same(alone is None)
        if alone is not None:
            over.part(alone)
            over.part(self._alone_pace)
        for stream in self._loose:
            _visit_if_ahead(over, stream, now)
        for stream in self._heads:
            over.part(stream)
        for group in self._groups.values():
            _visit_if_ahead(over, group, now)
        if self._n_waiting or self._share.rate or self._share.t_ps == now:
            over.part(self._share)
        self._finishes.sort(key=_order)
        for finish, _, stream in self._finishes:
            over.same(finish)
            over.part(stream)
        self._ends.sort(key=_order)
        for number, (end_ps, order, stream, line) in enumerate(self._ends):
            over.same(stream.pace is line, line.rate)
            if end_ps > now or stream.pace is line:
                _visit_if_ahead(over, stream, now)
            self._ends[number] = over.deadline(end_ps), order, stream, line

    def serves(self, flow: SharedFlow) -> None:
        """Transfers of *flow* pass here."""
        self._flows.append(flow)

    def is_idle(self, now_ps: int) -> bool:
        """Whether nothing is on the link at *now_ps* or on its way there, and all ended streams are forgotten."""
        if self._ends and self._ends[0][0] <= now_ps:
            self._forget_ended(now_ps)
        if self._alone is not None and self._alone_pace.end_ps <= now_ps:
            self._alone.has_left()
            self._alone = None
        if self._groups or self._loose or self._n_waiting or self._ends or self._alone is not None:
            return False
        if self._divides or self._watches or self._promised != 0.0:
            return False
        for flow in self._flows:  # noqa: SIM110  # twice as fast as any(), and asked for each isolated command
            if flow.under_way:
                return False
        return True

    def takes(self, more: float) -> bool:
        """Promises *more* bytes a picosecond to a group. False if the link has no room, or watches the rates."""
        promised = self._promised + more
        if self._watches or promised > self._most:
            return False
        self._promised = promised
        return True

    @abstractmethod
    def hear(self, group: FlowGroup) -> None:
        """Takes a change of the rate of *group*, which reaches this link now."""

    def _pass(self, stream: Stream, now: int) -> None:
        """Lets *stream* pass, of which no bytes are here. A link that watches no rates needs no group for a line."""
        line = stream.pace
        if type(line) is SteadyPace and not self._watches:
            self._pass_loose(stream, line)
        else:
            group = self._group_of(stream, now)
            group.passing[stream] = None
            self._promised += group.ceiling

    def _join(self, stream: Stream, now: int) -> None:
        """Lets *stream* pass, whose bytes come at the share of another link. This link watches no rates."""
        key = stream.pace, stream.delay_ps
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = FlowGroup(key, now, self)
        stream.group = group
        group.passing[stream] = None
        self._promised += group.ceiling

    def _pass_loose(self, stream: Stream, line: SteadyPace) -> None:
        stream.group = LOOSE
        self._loose[stream] = None
        self._promised += line.rate
        heappush(self._ends, (line.end_ps + stream.delay_ps, next(self._order), stream, line))

    def _stop_passing(self, stream: Stream) -> None:
        group = stream.group
        if group is LOOSE:
            del self._loose[stream]
            self._promised -= stream.pace.rate
        else:
            del group.passing[stream]
            self._promised -= group.ceiling
            if not (group.passing or group.n_waiting):
                self._drop(group)

    def _group_loose(self, now: int) -> None:
        """Puts the streams that pass without a group into groups."""
        loose, self._loose = self._loose, {}
        for stream in loose:
            self._group_of(stream, now).passing[stream] = None

    def _group_of(self, stream: Stream, now: int) -> FlowGroup:
        """The group that *stream* belongs to by its pace."""
        key = pace, delay_ps = stream.pace, stream.delay_ps
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = FlowGroup(key, now, self)
            if self._watches:
                group.hear_all(self._clock, now)
        if type(pace) is SteadyPace:
            heappush(self._ends, (pace.end_ps + delay_ps, next(self._order), stream, pace))
        stream.group = group
        return group

    def _drop(self, group: FlowGroup) -> None:
        """Forgets *group*, which is empty."""
        if self._groups.pop(group.key, None) is not None:
            group.retire()

    def _stop_waiting(self, group: FlowGroup) -> None:
        """A stream of *group* waits for bytes no more."""
        group.drop_waiting()
        if not (group.n_waiting or group.passing):
            self._drop(group)

    def _wait(self, stream: Stream, now: int, served: float) -> None:
        """*stream*, of which *served* bytes have left, waits from now on."""
        if not self._n_waiting and not self._share.rate and self._share.t_ps < now:
            self._share = FairShare(now)
        self._n_waiting += 1
        stream.wait(self._share.level_at(now), served)
        heappush(self._finishes, (stream.finish, next(self._order), stream))
        group = stream.group
        if type(stream.pace) is SteadyPace and stream.came_by(now) >= stream.hop.nbytes - NO_BYTES:
            stream.has_come()
            if not (group.n_waiting or group.passing):
                self._drop(group)
        else:
            group.add_waiting(stream, next(self._order))

    def _forget_ended(self, now: int) -> bool:
        """Forgets the streams whose line has ended: they passed, or wait with all their bytes.

        Returns whether any passed.

        There is one at least whose line has ended.
        """
        ends, has_passed = self._ends, False
        while True:
            _, _, stream, line = heappop(ends)
            if not stream.complete and stream.pace is line:
                if stream.group is LOOSE:
                    stream.has_left()
                    del self._loose[stream]
                    self._promised -= line.rate
                    has_passed = True
                elif stream.waits:
                    stream.has_come()
                    self._stop_waiting(stream.group)
                else:
                    stream.has_left()
                    self._stop_passing(stream)
                    has_passed = True
            if not ends or ends[0][0] > now:
                return has_passed

    def _finish(self, stream: Stream) -> None:
        """The last byte of *stream*, which waited, leaves now."""
        self._n_waiting -= 1
        if not stream.complete:
            self._stop_waiting(stream.group)
        stream.has_left()
        self._send_tail(stream)

    def _begin_to_leave(self, stream: Stream) -> None:
        """The head of *stream* leaves now, at the pace of the link if it waits, and at its own if it passes."""
        if stream.waits:
            self._send_head(stream, self._share, stream.after_ps, stream.own_offset)
        else:
            self._send_head(stream, stream.pace, stream.delay_ps + stream.after_ps, stream.offset)

    def _leave_otherwise(self, stream: Stream) -> None:
        """Notifies the next place that *stream* leaves at another pace from now on, unless its head is still here."""
        if stream.behind is HERE:
            return
        if stream.waits:
            self._tell_next(stream, self._share, stream.after_ps, stream.own_offset)
        else:
            self._tell_next(stream, stream.pace, stream.delay_ps + stream.after_ps, stream.offset)
