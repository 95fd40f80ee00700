"""Departures: how streams go on from a shared link, to the next shared link of their leg or to the end of the leg."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from simpy.events import NORMAL

from kb_engine.fabric.pace import FairShare, Pace, SteadyPace
from kb_engine.fabric.stream import Passage, Stream
from kb_engine.timing.clock import Clock

Leaving: TypeAlias = tuple[Pace, int, float]
"""How a stream leaves, as the place behind sees it: pace, delay in picoseconds, offset in bytes."""


class Departures:
    """Sends heads, tails and changes of pace on. *deliver* gets each passage that has reached the end of its leg."""

    __slots__ = ("_clock", "_deliver")

    def __init__(self, clock: Clock, deliver: Callable[[Passage], None]) -> None:
        self._clock = clock
        self._deliver = deliver

    def send_head(self, stream: Stream, leaving: Leaving) -> None:
        """The head of *stream* leaves now."""
        passage, number = stream.passage, stream.number + 1
        if number == len(passage.flow.shared):
            stream.go_on(None)
            self.tell_next(stream, leaving)
            return
        behind = Stream(passage, number, *leaving)
        stream.go_on(behind)
        clock = self._clock
        clock.push((clock.now_ps + stream.after_ps, NORMAL, next(clock.tickets), behind.link.arrive, behind))

    def tell_next(self, stream: Stream, leaving: Leaving) -> None:
        """*stream*, whose head has left, leaves at another pace from now on."""
        next_ps, behind = self._clock.now_ps + stream.after_ps, stream.behind
        if behind is not None:
            self._clock.call_at(next_ps, behind.link.regroup, (behind, *leaving))
            return
        pace, delay_ps, offset = leaving
        stream.passage.comes(next_ps, pace, delay_ps, offset)
        if type(pace) is SteadyPace:
            self._expect(stream.passage, stream.passage.ends_ps(pace.end_ps + delay_ps))
        else:
            assert type(pace) is FairShare
            pace.look_back(delay_ps)
            stream.passage.is_due(-1)

    def send_tail(self, stream: Stream) -> None:
        """The last byte of *stream* leaves now."""
        next_ps, behind = self._clock.now_ps + stream.after_ps, stream.behind
        if behind is not None:
            self._clock.call_at(next_ps, behind.link.complete, behind)
        else:
            self._expect(stream.passage, stream.passage.ends_ps(next_ps))

    def _expect(self, passage: Passage, due_ps: int) -> None:
        passage.is_due(due_ps)
        self._clock.call_at(due_ps, self._arrived, passage)

    def _arrived(self, passage: Passage) -> None:
        """The last byte is at the end of the leg now, unless a later change has moved that moment."""
        if passage.due_ps == self._clock.now_ps:
            passage.is_due(-1)
            self._deliver(passage)
