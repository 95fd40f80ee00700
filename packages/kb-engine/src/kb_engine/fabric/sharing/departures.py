"""Departures: how streams go on from a shared link, to the next shared link of their leg or to the end of the leg.

A place behind sees how a stream leaves as a pace, a delay in picoseconds, and an offset in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from simpy.events import NORMAL

from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve, FairShare, SteadyPace
from kb_engine.fabric.sharing.stream import Passage, Stream
from kb_engine.timing.clock import Clock


class Departures:
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
