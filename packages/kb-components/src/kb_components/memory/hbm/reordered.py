"""HBM whose controller chooses among waiting requests: first ready, first come, first served, within a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from msgspec import Meta

from kb_components.memory.hbm.banked import HbmBanked
from kb_components.memory.hbm.pseudo_channel import PseudoChannel, RequestPart
from kb_components.memory.hbm.timing import HbmBankedSpec
from kb_engine.block import Context
from kb_messages import OFFSET_MASK, CountedPieces, Rectangle


class _Waiting:
    """A request of which `n_left` parts wait. The column commands of the other parts are from `first` to `last`."""

    __slots__ = ("first", "last", "n_left", "then", "write")

    def __init__(self, n_left: int, write: bool, then: Callable[[int, int], None]) -> None:
        self.n_left, self.write, self.then = n_left, write, then
        self.first, self.last = -1, -1

    def is_served(self, first: int, last: int) -> bool:
        """Notes the column commands of one more part, from *first* to *last*. Returns whether it was the last part."""
        self.first = first if self.first < 0 else min(first, self.first)
        self.last = max(last, self.last)
        self.n_left -= 1
        return not self.n_left


class WaitingPart:
    """The part of `request` at one pseudo-channel, with the arguments of `PseudoChannel.serve`.

    `n_passed` later parts went before it.
    """

    __slots__ = ("arrival", "last_byte", "n_passed", "part", "request", "row", "write")

    def __init__(
        self, arrival: int, part: RequestPart, row: int, last_byte: int, write: bool, request: _Waiting
    ) -> None:
        self.arrival, self.part, self.row = arrival, part, row
        self.last_byte, self.write, self.request = last_byte, write, request
        self.n_passed = 0

    def is_passed(self) -> None:
        """Counts one more later part that goes before."""
        self.n_passed += 1


class RequestQueue:
    """Parts in order of arrival. With `has_event`, the next choice is an event to come."""

    __slots__ = ("_most_passed", "_window", "has_event", "parts")

    def __init__(self, window: int, most_passed: int) -> None:
        self._window = window
        self._most_passed = most_passed
        self.parts: list[WaitingPart] = []
        self.has_event = False

    def add(self, part: WaitingPart) -> None:
        """Adds *part*, which has come."""
        self.parts.append(part)

    def expects(self, has_event: bool) -> None:
        """Sets whether the next choice is an event to come."""
        self.has_event = has_event

    def take(self, channel: PseudoChannel, now: int) -> tuple[WaitingPart, int]:
        """Returns (part that goes next at *now*, number of older parts that it passes). The part is removed from the
        queue."""
        parts, at = self.parts, 0
        if len(parts) > 1 and parts[0].n_passed < self._most_passed:
            soonest = [channel.soonest(now, each.part, each.row, each.write) for each in parts[: self._window]]
            at = soonest.index(min(soonest))
        for older in parts[:at]:
            older.is_passed()
        return parts.pop(at), at


class HbmReorderedSpec(HbmBankedSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attributes of HbmBanked, and the attributes of the choice.

    `window`: the controller chooses among so many requests, the oldest of a pseudo-channel. `most_passed`: so many
    later requests may go before a request, which is next then. Source of both defaults: assumed.
    """

    window: Annotated[int, Meta(ge=1)] = 32
    most_passed: Annotated[int, Meta(ge=0)] = 64


class HbmReordered(HbmBanked):
    """A banked HBM whose pseudo-channels serve the request next whose first column command can be sent soonest.

    Of equal requests the oldest goes first. So open rows go before others, and reads before writes while the bus reads.
    A pseudo-channel chooses when the bus has commands for no longer than it takes to close a row and open another. So
    rows open while the bytes of earlier choices move. A write waits for its last byte first.

    The data of a request on several pseudo-channels leave when its last part was chosen, at the soonest.

    `passed_requests` counts how often a request was passed by a later one.

    Source: first ready, first come, first served (Rixner et al., "Memory Access Scheduling", ISCA 2000), request by
    request. A refresh to come takes no part in the choice.
    """

    spec_type = HbmReorderedSpec
    spec: HbmReorderedSpec
    state = ("_queues", "passed_requests")
    counters: ClassVar[tuple[str, ...]] = ("passed_requests",)
    reorders = True
    buffers_writes = True

    def __init__(self, spec: HbmReorderedSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._lead = self._timing.rp + self._timing.rcd
        self._queues = [RequestQueue(spec.window, spec.most_passed) for _ in self.channels]
        self.passed_requests = 0

    def request(self, memory: Rectangle, last_byte_ps: int, write: bool, then: Callable[[int, int], None]) -> None:
        """Takes a request that arrives now. `then` gets the two times of `reserve` when the last part is chosen."""
        now_ps, nbytes = self.clock.now_ps, memory.rows * memory.row_nbytes
        if not nbytes:
            then(*self.reserve(now_ps, memory, last_byte_ps, write))
            return
        if write:
            self.written_nbytes += nbytes
        else:
            self.read_nbytes += nbytes
        arrival = self._refresh.active(self._cycle_at(now_ps))
        last_byte = arrival if last_byte_ps <= now_ps else self._refresh.active(self._cycle_at(last_byte_ps))
        pieces = memory.pieces if isinstance(memory, CountedPieces) else (memory,)
        found = [self._parts(each.base & OFFSET_MASK, each.rows, each.row_nbytes, each.stride) for each in pieces]
        parts = [(row, part) for row, parts in found for part in parts]
        waiting = _Waiting(len(parts), write, then)
        for row, part in parts:
            self._bursts += part.n_bursts
            self._queues[part.channel].add(WaitingPart(arrival, part, row, last_byte, write, waiting))
        self.busy_ps = self._cycle.ps(-(-self._bursts * self.spec.tccd_s_cycles // len(self.channels)))
        for number in dict.fromkeys(part.channel for _, part in parts):
            self._choose(number)

    def _choose(self, number: int) -> None:
        """Serves requests of pseudo-channel *number* as long as the bus runs out of commands soon."""
        channel, queue = self.channels[number], self._queues[number]
        now = self._refresh.active(self._cycle_at(self.clock.now_ps))
        while queue.parts and not queue.has_event:
            # The bus has commands up to `last`: the next choice is early enough when a row can be opened just in time.
            due = channel.last - self._lead
            if due > now:
                queue.expects(True)
                # At least one picosecond later, so that the choice is an event of its own.
                due_ps = max(self.clock.now_ps + 1, self._cycle.ps(self._refresh.wall(due)))
                self.clock.call_at(due_ps, self._choose_again, number)
                return
            part, n_passed = queue.take(channel, now)
            self.passed_requests += n_passed
            commands = channel.serve(max(now, part.arrival), part.part, part.row, part.last_byte, part.write)
            self._served(part.request, *commands)

    def _choose_again(self, number: int) -> None:
        self._queues[number].expects(False)
        self._choose(number)

    def _served(self, waiting: _Waiting, first: int, last: int) -> None:
        if waiting.is_served(first, last):
            first_ps, last_ps = self._data_ps(waiting.first, waiting.last, waiting.write)
            waiting.then(max(first_ps, self.clock.now_ps), last_ps)
