"""Packets over links and buffers, flit by flit: what `kb_engine.fabric.packets.held_link` computes packet by packet.

Nothing here comes from the engine. Every flit is an event at every link, times are exact fractions of picoseconds, and
a credit is an event. The rules are those of virtual cut-through (Dally and Towles, "Principles and Practices of
Interconnection Networks", 2004, chapter 13): a packet gets a link and room in the buffer behind the link as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

CHANGE, GRANT = 0, 1
"""A link is given away after all changes of that moment."""


class Line(NamedTuple):
    """A link: its bandwidth, its latency with that of the node behind, and the buffer there (None: room for all)."""

    name: str
    ps_each: Fraction
    after_ps: int
    buffer_nbytes: int | None
    credit_ps: int


class Message(NamedTuple):
    """*nbytes* over *lines*, which come evenly from *head_ps* to *tail_ps*. Messages are in order of their begin."""

    lines: tuple[str, ...]
    nbytes: int
    packet_nbytes: int
    head_ps: int
    tail_ps: int


@dataclass
class Flit:
    """Its bytes pass the place where it is from *first_ps* to *last_ps*."""

    first_ps: Fraction
    last_ps: Fraction
    part: Fraction
    is_tail: bool


@dataclass
class Parcel:
    """A packet at one place: bytes *begin* to *end* of a message, and those of its flits that have begun to come.

    The line that it has waits for flits when the packet is `starved`.
    """

    message: int
    number: int
    begin: int
    end: int
    hop: int = 0
    flits: deque[Flit] = field(default_factory=deque)
    has_come: bool = False
    starved: Callable[[], None] | None = None


class Simulation:
    """Messages over lines. `ends_ps` has the end of each message that ends, by number."""

    def __init__(self, lines: list[Line], messages: list[Message], flit_nbytes: int) -> None:
        self.lines = {line.name: line for line in lines}
        self.messages = messages
        self.flit_nbytes = flit_nbytes
        self.ends_ps: dict[int, Fraction] = {}
        self.now = Fraction(0)
        self.events: list[tuple[Fraction, int, int, Callable[[], None]]] = []
        self.n_events = 0
        self.credits = {line.name: line.buffer_nbytes or 0 for line in lines}
        self.taken: set[str] = set()
        self.wanting: dict[str, list[Parcel]] = {line.name: [] for line in lines}
        self.since_ps: dict[int, Fraction] = {}
        self.buffers: dict[str, deque[Parcel]] = {line.name: deque() for line in lines}

    def run(self) -> Simulation:
        for number in range(len(self.messages)):
            self.launch(number, 0)
        while self.events:
            self.now, _, _, function = heappop(self.events)
            function()
        return self

    @property
    def stuck_lines(self) -> set[str]:
        """The lines that packets still want when nothing happens any more."""
        return {name for name, wanting in self.wanting.items() if wanting}

    def at(self, t_ps: Fraction, kind: int, function: Callable[[], None]) -> None:
        self.n_events += 1
        heappush(self.events, (t_ps, kind, self.n_events, function))

    def line_of(self, parcel: Parcel) -> Line:
        return self.lines[self.messages[parcel.message].lines[parcel.hop]]

    def goes_on(self, parcel: Parcel) -> bool:
        """Whether the packet needs room behind the line that it wants."""
        return parcel.hop + 1 < len(self.messages[parcel.message].lines)

    def launch(self, message_number: int, number: int) -> None:
        """Packet *number* of the message is the next at its source, where its flits come as the message's bytes do."""
        message = self.messages[message_number]
        begin = number * message.packet_nbytes
        end = min(message.nbytes, begin + message.packet_nbytes)
        span = message.tail_ps - message.head_ps
        first, last = (message.head_ps + ceil(Fraction(span * place, message.nbytes)) for place in (begin, end))
        parcel = Parcel(message_number, number, begin, end)
        for at in range(begin, end, self.flit_nbytes):
            to = min(end, at + self.flit_nbytes)
            come = [first + Fraction((last - first) * (place - begin), end - begin) for place in (at, to)]
            flit = Flit(come[0], come[1], Fraction(to - at, end - begin), to == end)
            self.at(max(self.now, come[0]), CHANGE, partial(self.come, None, parcel, flit))

    def come(self, line: Line | None, parcel: Parcel, flit: Flit) -> None:
        """A flit begins to come, over *line* or at the source. With the first one the packet takes its place."""
        parcel.flits.append(flit)
        if not parcel.has_come:
            parcel.has_come = True
            if line is not None and line.buffer_nbytes is not None:
                self.buffers[line.name].append(parcel)
            if line is None or line.buffer_nbytes is None or self.buffers[line.name][0] is parcel:
                self.want(parcel)
        elif parcel.starved is not None:
            send, parcel.starved = parcel.starved, None
            send()

    def want(self, parcel: Parcel) -> None:
        line = self.line_of(parcel)
        self.since_ps[id(parcel)] = self.now
        self.wanting[line.name].append(parcel)
        self.at(self.now, GRANT, partial(self.grant, line))

    def grant(self, line: Line) -> None:
        """Give the line to the packet that wants it longest, if the line is free and the buffer has room for it."""
        if not self.wanting[line.name] or line.name in self.taken:
            return
        parcel = min(self.wanting[line.name], key=lambda each: (self.since_ps[id(each)], each.message, each.number))
        if line.buffer_nbytes is not None and self.goes_on(parcel):
            if self.credits[line.name] < parcel.end - parcel.begin:
                return
            self.credits[line.name] -= parcel.end - parcel.begin
        self.wanting[line.name].remove(parcel)
        self.taken.add(line.name)
        moved = Parcel(parcel.message, parcel.number, parcel.begin, parcel.end, parcel.hop + 1)
        self.send(line, parcel, moved)

    def send(self, line: Line, parcel: Parcel, moved: Parcel) -> None:
        """Send the next flit now, or when it comes. It cannot end before its last byte has come."""
        if not parcel.flits:
            parcel.starved = partial(self.send, line, parcel, moved)
            return
        flit = parcel.flits.popleft()
        whole_ps = ceil(line.ps_each * parcel.end) - ceil(line.ps_each * parcel.begin)
        end_ps = max(self.now + whole_ps * flit.part, flit.last_ps)
        if self.goes_on(parcel):
            there = Flit(self.now + line.after_ps, end_ps + line.after_ps, flit.part, flit.is_tail)
            self.at(there.first_ps, CHANGE, partial(self.come, line, moved, there))
        self.at(end_ps, CHANGE, partial(self.sent, line, parcel, moved, flit.is_tail))

    def sent(self, line: Line, parcel: Parcel, moved: Parcel, is_tail: bool) -> None:
        if not is_tail:
            self.send(line, parcel, moved)
            return
        self.taken.remove(line.name)
        self.at(self.now, GRANT, partial(self.grant, line))
        message = self.messages[parcel.message]
        if parcel.hop:
            self.leave(self.lines[message.lines[parcel.hop - 1]], parcel)
        elif parcel.end < message.nbytes:
            self.launch(parcel.message, parcel.number + 1)
        if not self.goes_on(parcel) and parcel.end == message.nbytes:
            self.ends_ps[parcel.message] = self.now + line.after_ps

    def leave(self, before: Line, parcel: Parcel) -> None:
        """The packet has left the buffer behind line *before*: the next one may go, and a credit goes back."""
        if before.buffer_nbytes is None:
            return
        buffer = self.buffers[before.name]
        assert buffer.popleft() is parcel
        if buffer:
            self.want(buffer[0])
        nbytes = parcel.end - parcel.begin
        self.at(self.now + before.credit_ps, CHANGE, partial(self.credit, before, nbytes))

    def credit(self, line: Line, nbytes: int) -> None:
        self.credits[line.name] += nbytes
        self.at(self.now, GRANT, partial(self.grant, line))
