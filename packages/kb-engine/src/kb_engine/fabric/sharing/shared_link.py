"""SharedLink: a link that several flows can want at once. The flows share its bandwidth evenly, byte by byte.

The shares are max-min fair, which is the limit of round robin over short bursts: a flow whose bytes come in more slowly
than an equal share passes at the pace at which it comes, and the flows with waiting bytes share the rest evenly.

An arrival or an end changes one rate, the rate of all waiting flows, however many there are (`link_streams`). The links
behind know their flows by groups of one pace. A change of rate is an event only at a link whose own rates follow from
the change: a link that has room for the rates that may come promises each group a ceiling, and hears of no change below
the ceiling.

A link that watches rates divides its bandwidth at the end of a picosecond, when all that happens in it has happened. So
the order within a picosecond decides nothing, and a link as wide as its arrivals holds no flow up.

A flow that has the link alone is served in whole picoseconds, exactly. Shares are computed in double precision, and
each moment of change is the first whole picosecond that is not before the exact moment.

Design: docs/design/link-sharing.md
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf
from typing import Final

from simpy.events import NORMAL, URGENT

from kb_engine.fabric.sharing.arrival_curve import MORE, NO_BYTES, NO_TIME_PS, ArrivalCurve, SteadyPace
from kb_engine.fabric.sharing.flow_group import FlowGroup
from kb_engine.fabric.sharing.link_streams import LOOSE, LinkStreams
from kb_engine.fabric.sharing.stream import HERE, Stream

_ROOM: Final = 0.9
"""A link stops watching rates when less than this part of its bandwidth is taken.

Source: assumed; saves time. Another value moves no end.
"""
_LAST: Final = NORMAL + 1
"""The priority of divisions: after everything else that happens in their picosecond."""


class SharedLink(LinkStreams):
    """The streams on one direction of a link, and the rates at which they leave."""

    __slots__ = ()

    def arrive(self, stream: Stream) -> None:
        """The head of *stream* arrives now."""
        now = self._clock.now_ps
        if self._alone is not None:
            self._share_with_others(now)
        ends = self._ends
        if ends and ends[0][0] <= now:
            self._forget_ended(now)
        pace = stream.pace
        if type(pace) is SteadyPace:
            if not self._watches and self._promised + pace.rate <= self._bandwidth:
                stream.group = LOOSE
                self._loose[stream] = None
                self._promised += pace.rate
                delay_ps = stream.delay_ps
                heappush(ends, (pace.end_ps + delay_ps, next(self._order), stream, pace))
                self._send_head(stream, pace, delay_ps + stream.after_ps, stream.offset)
                return
            end_ps = now + stream.hop.duration_ps
            is_alone = not (self._groups or self._loose or self._n_waiting)
            if is_alone and end_ps > pace.end_ps + stream.delay_ps:
                self._alone = stream
                self._alone_pace = SteadyPace(now, end_ps, stream.hop.nbytes)
                self._send_head(stream, self._alone_pace, stream.after_ps, 0.0)
                return
        elif not self._watches:
            self._join(stream, now)
            if self._promised > self._most:
                self._reckon(now)
                self._head_leaves(stream)
            else:
                self._send_head(stream, pace, stream.delay_ps + stream.after_ps, stream.offset)
            return
        self._enter(stream, now)
        self._head_leaves(stream)

    def regroup(self, change: tuple[Stream, ArrivalCurve, int, float]) -> None:
        """From now on the bytes of a stream come at another pace. *change* is the stream, pace, delay and offset."""
        stream, pace, delay_ps, offset = change
        now = self._clock.now_ps
        if stream is self._alone:
            self._share_with_others(now)
        if stream.complete:
            return  # the remainder is rounding error
        if stream.waits:
            old = stream.group
            old.drop_waiting()
            stream.change_pace(pace, delay_ps, offset)
            new = self._group_of(stream, now)
            new.add_waiting(stream, next(self._order))
            if not (old.n_waiting or old.passing):
                self._drop(old)
            if self._goes_on(now, new.rate):
                return
        else:
            self._stop_passing(stream)
            stream.change_pace(pace, delay_ps, offset)
            if self._watches or type(pace) is SteadyPace:
                self._pass(stream, now)
            else:
                self._join(stream, now)
            if stream.behind is not HERE:
                self._tell_next(stream, pace, delay_ps + stream.after_ps, offset)
        if self._watches:
            self._divide_soon(now)
        elif self._promised > self._most:
            self._reckon(now)

    def complete(self, stream: Stream) -> None:
        """The last byte of *stream*, whose bytes come at the share of another link, arrives now."""
        if stream.done:
            return
        if stream.waits:
            stream.has_come()
            self._stop_waiting(stream.group)
            return
        stream.has_left()
        group = stream.group
        del group.passing[stream]
        self._promised -= group.ceiling
        if not (group.passing or group.n_waiting):
            self._drop(group)
        self._send_tail(stream)
        if self._watches:
            self._divide_soon(self._clock.now_ps)

    def hear(self, group: FlowGroup) -> None:
        """Takes a change of the rate of *group*, which reaches this link now."""
        passing = group.passing
        if not (passing or group.n_waiting):
            return
        now = self._clock.now_ps
        if self._watches:
            before, rate = group.rate, group.refresh(now)
            slower = rate if rate < before else before
            if passing or slower * MORE < self._share.rate or not self._is_steady(now):
                self._divide_soon(now)
            return
        self._promised -= group.ceiling * len(passing)
        self._promised += group.promise(now) * len(passing)
        if self._promised > self._most:
            self._reckon(now)

    def _is_steady(self, now: int) -> bool:
        """Whether streams wait, nothing is due now, and none of them comes more slowly than it leaves."""
        share, ends, finishes = self._share, self._ends, self._finishes
        if self._slowest * MORE < share.rate or not finishes or (ends and ends[0][0] <= now):
            return False
        return finishes[0][0] > share.level + share.rate * (now - share.t_ps) + NO_BYTES

    def _goes_on(self, now: int, rate: float) -> bool:
        """Whether a division now would change nothing, where all that is new is a stream that waits.

        Its bytes come at *rate*.
        """
        tick_ps, ends = self._tick_ps, self._ends
        if tick_ps <= now or rate * MORE < self._share.rate or (ends and ends[0][0] < tick_ps):
            return False
        return self._is_steady(now)

    def _enter(self, stream: Stream, now: int) -> None:
        """Takes *stream* in beside others: to pass, or to wait."""
        is_there = type(stream.pace) is SteadyPace and stream.came_by(now) > NO_BYTES  # all bytes came with the first
        if is_there or (self._n_waiting and stream.pace.rate_at(now - stream.delay_ps) > self._share.rate * MORE):
            self._group_of(stream, now)
            self._wait(stream, now, 0.0)
            if not self._watches:
                self._reckon(now)
        else:
            self._pass(stream, now)
        if self._watches:
            self._divide_soon(now)
        elif self._promised > self._most:
            self._reckon(now)

    def _share_with_others(self, now: int) -> None:
        """Makes the stream that had the link alone one of several from now on, unless it has ended."""
        stream, line = self._alone, self._alone_pace
        assert stream is not None
        self._alone = None
        if line.end_ps <= now:
            stream.has_left()
            return
        self._group_of(stream, now)
        self._wait(stream, now, line.level_at(now))
        self._watches = True
        self._leave_otherwise(stream)

    def _reckon(self, now: int) -> None:
        """Finds out whether the link has room for the rates that may come.

        If it has none, the link watches the rates.
        """
        promised, changing = sum([stream.pace.rate for stream in self._loose]), 0
        for group in self._groups.values():
            promised += group.promise(now) * len(group.passing)
            if not group.is_steady:
                changing += len(group.passing)
        if promised <= self._most and not self._n_waiting:
            spare = max(0.0, self._bandwidth - promised) / (2 * changing) if changing else 0.0
            for group in self._groups.values():
                group.promise_more(spare)
            self._promised = promised + spare * changing
            self._watches = False
            return
        self._watches = True
        self._group_loose(now)
        for group in self._groups.values():
            group.hear_all(self._clock, now)
        self._divide_soon(now)

    def _tick(self, _: None) -> None:
        """A stream ends or catches up now, or its line does, unless a later `_plan_tick` has replaced this moment."""
        now = self._clock.now_ps
        if now != self._tick_ps:
            return
        self._tick_ps = -1
        ends = self._ends
        if (ends and ends[0][0] <= now and self._forget_ended(now)) or not self._is_steady(now):
            self._settle(now)
        else:
            self._plan_tick(now)

    def _divide_soon(self, now: int) -> None:
        """Divides the bandwidth at the end of this picosecond."""
        if not self._divides:
            self._divides = True
            clock = self._clock
            clock.push((now, _LAST, next(clock.event_order), self._divide_now, None))

    def _divide_now(self, _: None) -> None:
        """Divides the bandwidth and lets heads leave. All other events of this picosecond have happened."""
        self._divides = False
        self._settle(self._clock.now_ps)
        heads, self._heads = self._heads, []
        for stream in heads:
            self._begin_to_leave(stream)

    def _head_leaves(self, stream: Stream) -> None:
        """The head of *stream* leaves now, after the division if there is one in this picosecond."""
        if self._watches:
            self._heads.append(stream)
        else:
            self._begin_to_leave(stream)

    def _settle(self, now: int) -> None:
        """Ends the streams that have left, divides the bandwidth, and announces the new rate to the links behind."""
        if self._ends and self._ends[0][0] <= now:
            self._forget_ended(now)
        share, finishes = self._share, self._finishes
        if finishes:
            reached = share.level + share.rate * (now - share.t_ps) + NO_BYTES
            while finishes and finishes[0][0] <= reached:
                finish, _, stream = heappop(finishes)
                if stream.waits and stream.finish == finish and not stream.done:
                    self._finish(stream)
        rate, taken, self._slowest = self._divide(now)
        share = self._share
        if rate != share.rate:
            share.change(now, rate)
            if share.audience:
                share.announce(self._clock)
        if self._n_waiting:
            self._plan_tick(now)
            return
        self._tick_ps = -1
        finishes.clear()
        if taken <= self._bandwidth * _ROOM:
            self._stop_watching(now)

    def _stop_watching(self, now: int) -> None:
        promised = sum([g.pace.peak_since(now - g.delay_ps) * len(g.passing) for g in self._groups.values()])
        if promised <= self._bandwidth:
            self._reckon(now)

    def _divide(self, now: int) -> tuple[float, float, float]:
        """Max-min fair shares.

        Returns the rate of each waiting stream, the sum of the rates of passing streams, and the lowest rate at which
        bytes come for a waiting stream. Every move of a group raises the equal share: streams without bytes that come
        more slowly than the share stop waiting, and streams that come faster begin to wait. So a group moves twice at
        most.
        """
        bandwidth, groups = self._bandwidth, self._groups
        while True:
            taken, slowest, fastest_rate, fastest = 0.0, inf, -1.0, None
            for group in groups.values():
                rate = group.rate
                passing = group.passing
                if passing:
                    taken += rate * len(passing)
                    if rate > fastest_rate:
                        fastest_rate, fastest = rate, group
                if group.n_waiting and rate < slowest:
                    slowest = rate
            waiting = self._n_waiting
            if waiting:
                equal = (bandwidth - taken) / waiting
                if slowest * MORE < equal and self._let_pass(now, equal):
                    continue
            elif taken <= self._most:
                return 0.0, taken, slowest
            else:
                equal = -1.0
            if fastest is None or fastest_rate <= equal * MORE:
                return equal, taken, slowest
            for stream in list(fastest.passing):
                del fastest.passing[stream]
                self._wait(stream, now, stream.came_by(now))
                self._leave_otherwise(stream)

    def _let_pass(self, now: int, equal: float) -> bool:
        """Lets the streams pass that have no bytes left and come more slowly than *equal*.

        Returns whether there are any.
        """
        found = False
        level = self._share.level_at(now)
        for group in self._groups.values():
            if not group.n_waiting or group.rate * MORE >= equal:
                continue
            ahead = level - group.came_by(now) + NO_BYTES
            while (first := group.next_to_catch_up()) is not None and first[0] <= ahead:
                found, stream = True, first[2]
                stream.catch_up()
                self._n_waiting -= 1
                group.drop_waiting()
                group.passing[stream] = None
                self._leave_otherwise(stream)
        return found

    def _plan_tick(self, now: int) -> None:
        """Schedules `_tick` at the next moment at which a stream ends, catches up, or has passed."""
        share, finishes = self._share, self._finishes
        rate = share.rate
        level = share.level + rate * (now - share.t_ps)
        finish, _, stream = finishes[0]
        while stream.finish != finish or stream.done or not stream.waits:
            heappop(finishes)
            finish, _, stream = finishes[0]
        soonest = (finish - level) / rate
        if self._slowest * MORE < rate:
            for group in self._groups.values():
                if group.n_waiting and group.rate * MORE < rate:
                    catches_up = group.catches_up_after(now, level, rate)
                    if catches_up < soonest:
                        soonest = catches_up
        ahead_ps = ceil(soonest - NO_TIME_PS)
        tick_ps = now + ahead_ps if ahead_ps > 1 else now + 1
        ends = self._ends
        if ends and ends[0][0] < tick_ps:
            tick_ps = ends[0][0]
        if tick_ps != self._tick_ps:
            self._tick_ps = tick_ps
            clock = self._clock
            clock.push((tick_ps, URGENT, next(clock.event_order), self._tick, None))
