"""SharedLink: a link that several flows can want at once. The flows share its bandwidth evenly, byte by byte.

The shares are max-min fair, which is the limit of round robin over short bursts: a flow whose bytes come in more slowly
than an equal share gets its input rate, and the flows with waiting bytes share the rest evenly. The rates change when a
flow arrives, ends, is fed at another rate or catches up with its input. Between two changes everything is known in
closed form. The output of a link is the input of the next link, so a change of rate travels behind the bytes.

A flow that is alone on the link is served in whole picoseconds, exactly. It starts with its head, and it holds the link
for the time of its bytes or until its last byte arrives. Shares are computed in double precision, and each moment of
change is the first whole picosecond that is not before the exact moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, Protocol

from kb_engine.timing.clock import Clock
from kb_engine.timing.units import Rate

_NO_BYTES: Final = 1e-3
"""Fewer bytes than this are a rounding error, and nothing waits for them."""
_NO_TIME_PS: Final = 2.0**-6
"""A moment that is at most this much after a whole picosecond counts as that picosecond."""


class SharedWay(Protocol):
    """The shared links of a leg, for transfers of one size."""

    @property
    def nbytes(self) -> int:
        """Bytes of the transfer."""

    @property
    def shared(self) -> Sequence[tuple[SharedLink, int, int]]:
        """Each shared link, the latency to the next shared link, and the time of the bytes on the link, in order."""


class Passage(Protocol):
    """A transfer as shared links see it. They set `head_ps`, and `due_ps` when the end of the leg is known or moves."""

    head_ps: int
    due_ps: int

    @property
    def flow(self) -> SharedWay:
        """The shared links that the transfer takes."""


class Stream:
    """One transfer on one shared link: the bytes that arrived and left until `t_ps`, and the rates of both.

    `number` is the place of the link among the shared links of the leg. `behind` is the stream of the same transfer on
    the next shared link.
    """

    __slots__ = (
        "after_ps",
        "arrived",
        "behind",
        "duration_ps",
        "end_ps",
        "in_rate",
        "link",
        "nbytes",
        "number",
        "out_rate",
        "passage",
        "served",
        "t_ps",
        "tail_ps",
    )

    def __init__(self, passage: Passage, number: int, tail_ps: int) -> None:
        self.passage = passage
        self.number = number
        self.link, self.after_ps, self.duration_ps = passage.flow.shared[number]
        self.nbytes = passage.flow.nbytes
        self.tail_ps = tail_ps
        self.behind: Stream | None = None
        self.arrived = self.served = self.in_rate = self.out_rate = 0.0
        self.t_ps = self.end_ps = 0

    def feed(self, now: int, amount: float, tail_ps: int) -> None:
        """By *now*, *amount* bytes have arrived. The rest arrives evenly until *tail_ps*."""
        self.tail_ps = tail_ps
        if tail_ps > now:
            self.arrived, self.in_rate = amount, (self.nbytes - amount) / (tail_ps - now)
        else:
            self.arrived, self.in_rate = float(self.nbytes), 0.0

    def advance(self, now: int) -> None:
        """Move the bytes on to *now*."""
        passed = now - self.t_ps
        self.t_ps = now
        self.arrived = min(self.nbytes, self.arrived + self.in_rate * passed)
        self.served = min(self.arrived, self.served + self.out_rate * passed)

    @property
    def waits(self) -> bool:
        """Whether bytes have arrived that have not left."""
        return self.arrived - self.served > _NO_BYTES or self.arrived >= self.nbytes - _NO_BYTES

    def caught_up_ps(self) -> float | None:
        """When the stream has no more waiting bytes; None if that is not before its input ends."""
        if self.out_rate <= self.in_rate or not self.in_rate or not self.waits:
            return None
        at = self.t_ps + (self.arrived - self.served) / (self.out_rate - self.in_rate)
        return at if at < self.tail_ps else None


class SharedLink:
    """The streams on one direction of a link. *deliver* gets each passage that has reached the end of its leg."""

    __slots__ = ("_bytes_per_ps", "_clock", "_deliver", "_streams", "_tick_ps")

    def __init__(self, clock: Clock, rate: Rate, deliver: Callable[[Passage], None]) -> None:
        self._clock = clock
        self._bytes_per_ps = float(1 / rate.ps_each)
        self._deliver = deliver
        self._streams: list[Stream] = []
        self._tick_ps = -1

    def arrive(self, stream: Stream) -> None:
        """The head of *stream* arrives now."""
        now = stream.t_ps = self._clock.now_ps
        stream.feed(now, 0.0, stream.tail_ps)
        streams = self._streams
        if streams and streams[-1].end_ps <= now and len(streams) == 1:
            streams.clear()
        if streams:
            streams.append(stream)
            self._share(now)
            return
        streams.append(stream)
        end = now + stream.duration_ps
        stream.end_ps = stream.tail_ps if stream.tail_ps > end else end
        stream.out_rate = stream.nbytes / (stream.end_ps - now)
        self._pass_on(stream, now)

    def _refeed(self, change: tuple[Stream, float, int]) -> None:
        """The input of a stream changes. *change* is the stream, its bytes so far and the time of its last byte."""
        stream, amount, tail_ps = change
        now = self._clock.now_ps
        if stream.end_ps <= now:
            return  # the stream has finished; the remainder is rounding error
        stream.advance(now)
        stream.feed(now, amount, tail_ps)
        self._share(now)

    def _tick(self, planned_ps: int) -> None:
        """A stream ends or catches up now, unless a later `_plan_tick` has replaced this moment."""
        if planned_ps == self._tick_ps:
            self._share(planned_ps)

    def _share(self, now: int) -> None:
        """Divide the bandwidth among the streams that have not ended, and pass the changes of rate on."""
        streams = self._streams = [each for each in self._streams if each.end_ps > now or not each.out_rate]
        for stream in streams:
            stream.advance(now)
        for stream, rate in zip(streams, self._rates(), strict=True):
            if rate != stream.out_rate:
                began = stream.out_rate > 0
                stream.out_rate = rate
                stream.end_ps = _whole_ps(now, (stream.nbytes - stream.served) / rate)
                if began:
                    self._change(stream, now)
                else:
                    self._pass_on(stream, now)
        self._plan_tick(now)

    def _rates(self) -> list[float]:
        """Max-min fair rates: a stream that asks for less than an equal share gets it, the others share the rest."""
        streams = self._streams
        asked = [float("inf") if each.waits else each.in_rate for each in streams]
        rates = [0.0] * len(streams)
        left, sharers = self._bytes_per_ps, len(streams)
        for number in sorted(range(len(streams)), key=asked.__getitem__):
            rates[number] = min(asked[number], left / sharers)
            left -= rates[number]
            sharers -= 1
        return rates

    def _plan_tick(self, now: int) -> None:
        """Schedule `_tick` at the next moment at which a stream ends or catches up."""
        streams = self._streams
        moments = [at for each in streams for at in (each.caught_up_ps(),) if at is not None]
        moments += [each.end_ps for each in streams] if len(streams) > 1 else []
        if not moments:
            self._tick_ps = -1
            return
        self._tick_ps = max(_whole_ps(0, min(moments)), now + 1)
        self._clock.call_at(self._tick_ps, self._tick, self._tick_ps)

    def _pass_on(self, stream: Stream, now: int) -> None:
        """Send the head of *stream* to the next shared link of its leg, or announce the end of the leg."""
        passage, number = stream.passage, stream.number + 1
        head_ps, tail_ps = now + stream.after_ps, stream.end_ps + stream.after_ps
        passage.head_ps = head_ps
        if number < len(passage.flow.shared):
            stream.behind = behind = Stream(passage, number, tail_ps)
            self._clock.call_at(head_ps, behind.link.arrive, behind)
        else:
            self._announce(passage, tail_ps)

    def _change(self, stream: Stream, now: int) -> None:
        """Tell the next shared link, or the end of the leg, that *stream* leaves at another rate from now on."""
        behind, tail_ps = stream.behind, stream.end_ps + stream.after_ps
        if behind is None:
            self._announce(stream.passage, tail_ps)
            return
        change = behind, stream.served, tail_ps
        self._clock.call_at(now + stream.after_ps, behind.link._refeed, change)

    def _announce(self, passage: Passage, due_ps: int) -> None:
        passage.due_ps = due_ps
        self._clock.call_at(due_ps, self._arrived, passage)

    def _arrived(self, passage: Passage) -> None:
        """The last byte is at the end of the leg now, unless a later announcement has moved that moment."""
        if passage.due_ps == self._clock.now_ps:
            passage.due_ps = -1
            self._deliver(passage)


def _whole_ps(now: int, more: float) -> int:
    """The first whole picosecond that is not before *now* plus *more*."""
    return now + max(0, ceil(more - _NO_TIME_PS))
