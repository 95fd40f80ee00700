"""A link that several flows can want at once: they share its bandwidth evenly, as if bytes alternated by burst.

A flow that has bytes waiting gets an equal part of what the flows leave that come in more slowly than that (max-min
fairness, the limit of round robin over short bursts). Rates change when a flow arrives, ends, is fed at another rate
or has caught up with its input; between such moments everything is known in closed form. What leaves a link is the
input of the next: a change of rate travels behind the bytes.

A flow alone is served in whole picoseconds, exactly: it begins with its head and holds its bytes for their time on
the link, or until its last byte is there. Shares are computed in double precision, and each moment of change is the
whole picosecond at or after the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from kb_engine.fabric.transfer import Transfer
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import Rate

_NO_BYTES: Final = 1e-3
"""Less than this waits for nobody: it is what rounding leaves behind."""
_NO_TIME_PS: Final = 2.0**-6
"""A moment this little after a picosecond is that picosecond."""


class Stream:
    """One transfer's passage over one shared link: the bytes that arrived and left until `t_ps`, and at what rates.

    `number` counts the shared links of its leg; `behind` is the same transfer's stream on the next of them.
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
        "served",
        "t_ps",
        "tail_ps",
        "transfer",
    )

    def __init__(self, transfer: Transfer, number: int, tail_ps: int) -> None:
        self.transfer = transfer
        self.number = number
        self.link, self.after_ps, self.duration_ps = transfer.flow.shared[number]
        self.nbytes = transfer.flow.nbytes
        self.tail_ps = tail_ps
        self.behind: Stream | None = None
        self.arrived = self.served = self.in_rate = self.out_rate = 0.0
        self.t_ps = self.end_ps = 0

    def feed(self, now: int, amount: float, tail_ps: int) -> None:
        """By *now*, *amount* bytes have come in; the rest comes evenly until *tail_ps*."""
        self.tail_ps = tail_ps
        if tail_ps > now:
            self.arrived, self.in_rate = amount, (self.nbytes - amount) / (tail_ps - now)
        else:
            self.arrived, self.in_rate = float(self.nbytes), 0.0

    def advance(self, now: int) -> None:
        """Let the bytes flow until *now*."""
        passed = now - self.t_ps
        self.t_ps = now
        self.arrived = min(self.nbytes, self.arrived + self.in_rate * passed)
        self.served = min(self.arrived, self.served + self.out_rate * passed)

    @property
    def waits(self) -> bool:
        """Whether bytes that are there have not left."""
        return self.arrived - self.served > _NO_BYTES or self.arrived >= self.nbytes - _NO_BYTES

    def caught_up_ps(self) -> float | None:
        """When no more bytes wait, if that is before the input ends."""
        if self.out_rate <= self.in_rate or not self.in_rate or not self.waits:
            return None
        at = self.t_ps + (self.arrived - self.served) / (self.out_rate - self.in_rate)
        return at if at < self.tail_ps else None


class SharedLink:
    """The streams on one direction of a link. `deliver(transfer)` is called when a transfer's leg ends."""

    __slots__ = ("_bytes_per_ps", "_clock", "_deliver", "_streams", "_tick_ps")

    def __init__(self, clock: Clock, rate: Rate, deliver: Callable[[Transfer], None]) -> None:
        self._clock = clock
        self._bytes_per_ps = float(1 / rate.ps_each)
        self._deliver = deliver
        self._streams: list[Stream] = []
        self._tick_ps = -1

    def arrive(self, stream: Stream) -> None:
        """The head of *stream* is here now."""
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
        """The input of a stream changes: so many bytes are here, the rest comes evenly until so late."""
        stream, amount, tail_ps = change
        now = self._clock.now_ps
        if stream.end_ps <= now:
            return  # what is left of it is what rounding made of nothing
        stream.advance(now)
        stream.feed(now, amount, tail_ps)
        self._share(now)

    def _tick(self, planned_ps: int) -> None:
        """A stream has ended or caught up, unless that was planned anew since."""
        if planned_ps == self._tick_ps:
            self._share(planned_ps)

    def _share(self, now: int) -> None:
        """Divide the bandwidth between the streams that have not ended, and tell what changes by it."""
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
        """Max-min fair rates: who asks for less than an equal part gets it, the others share what is left."""
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
        streams = self._streams
        moments = [at for each in streams for at in (each.caught_up_ps(),) if at is not None]
        moments += [each.end_ps for each in streams] if len(streams) > 1 else []
        if not moments:
            self._tick_ps = -1
            return
        self._tick_ps = max(_whole_ps(0, min(moments)), now + 1)
        self._clock.call_at(self._tick_ps, self._tick, self._tick_ps)

    def _pass_on(self, stream: Stream, now: int) -> None:
        """Send the head of *stream* to the next shared link of its leg, or announce its end at the leg's."""
        transfer, number = stream.transfer, stream.number + 1
        head_ps, tail_ps = now + stream.after_ps, stream.end_ps + stream.after_ps
        transfer.head_ps = head_ps
        if number < len(transfer.flow.shared):
            stream.behind = behind = Stream(transfer, number, tail_ps)
            self._clock.call_at(head_ps, behind.link.arrive, behind)
        else:
            self._announce(transfer, tail_ps)

    def _change(self, stream: Stream, now: int) -> None:
        """Tell the next shared link, or the end of the leg, that *stream* now leaves at another rate."""
        behind, tail_ps = stream.behind, stream.end_ps + stream.after_ps
        if behind is None:
            self._announce(stream.transfer, tail_ps)
            return
        change = behind, stream.served, tail_ps
        self._clock.call_at(now + stream.after_ps, behind.link._refeed, change)

    def _announce(self, transfer: Transfer, due_ps: int) -> None:
        transfer.due_ps = due_ps
        self._clock.call_at(due_ps, self._arrived, transfer)

    def _arrived(self, transfer: Transfer) -> None:
        """The last byte of *transfer* is at the end of its leg, unless it was put off since."""
        if transfer.due_ps == self._clock.now_ps:
            transfer.due_ps = -1
            self._deliver(transfer)


def _whole_ps(now: int, more: float) -> int:
    """The first whole picosecond not before *more* after *now*."""
    return now + max(0, ceil(more - _NO_TIME_PS))
