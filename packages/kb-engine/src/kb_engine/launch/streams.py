"""Streams: the calls of the host's streams, from the call of the driver to the end, and the order that they keep.

Design: docs/design/launch-and-host.md

The driver makes the calls one after another. The calls of a stream take effect in their order. A call begins when all
calls before it in its stream have ended at the host. Launches alone are sent ahead: the io_cpu keeps them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kb_engine.program.session import UnderWay
from kb_engine.timing.clock import Clock
from kb_messages import HostCallKind, KernelError

UNKNOWN_PS: Final = -1


class HostEvent:
    """An event: a call of one stream records it, and calls of streams wait for it. *line* made the event.

    `recorded_by` is the call that records the event; None while nobody has called. `waiting` has the streams whose next
    call waits for it.
    """

    def __init__(self, number: int, line: str) -> None:
        self.number = number
        self.line = line
        self.recorded_by: StreamCall | None = None
        self.waiting: list[int] = []

    @property
    def has_happened(self) -> bool:
        """Whether the call that records the event has ended."""
        return self.recorded_by is not None and self.recorded_by.has_ended


class StreamCall:
    """Call number `number` of all streams' calls, of `stream` and of the host's `line`.

    *start* begins the work: it gets a function to call at the end, later, and is None for calls that order others.
    `receiver` is the block that keeps launches sent ahead, at most `depth` of them. The driver began with the call at
    `called_ps` and had made it at `made_ps`. Its work, or its wait for an event, began at `start_ps`, and it ended at
    `end_ps`; each is -1 before. `first_seq` and `end_seq` are the numbers of its commands, as in the log's `calls`.
    `result` has the times of a launch that has ended. `is_seen` says that the host has waited for the call.
    """

    def __init__(
        self,
        stream: int,
        kind: HostCallKind,
        line: str,
        start: Callable[[Callable[[], None]], None] | None = None,
        *,
        event: HostEvent | None = None,
        launch: int = -1,
        receiver: object = None,
        depth: int = 1,
    ) -> None:
        self.number = -1
        self.stream = stream
        self.kind = kind
        self.line = line
        self.start = start
        self.event = event
        self.launch = launch
        self.receiver = receiver
        self.depth = depth
        self.called_ps = self.made_ps = self.start_ps = self.end_ps = UNKNOWN_PS
        self.first_seq = self.end_seq = -1
        self.result: object = None
        self.is_seen = False

    @property
    def has_started(self) -> bool:
        """Whether the work of the call has begun."""
        return self.start_ps != UNKNOWN_PS

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended, and the host knows."""
        return self.end_ps != UNKNOWN_PS


class Streams:
    """Makes the calls of streams, at *overhead_ps* of the driver each, on *clock*.

    *run* has the clock run until it is stopped, or nothing is left to happen. *ended* is called with each call that has
    ended, and *stuck* where calls are left that nothing ends; it raises an error. *under_way* counts the calls.
    """

    def __init__(
        self,
        clock: Clock,
        under_way: UnderWay,
        overhead_ps: Callable[[], int],
        run: Callable[[], None],
        ended: Callable[[StreamCall], None],
        stuck: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._under_way = under_way
        self._overhead_ps = overhead_ps
        self._run = run
        self._ended = ended
        self._stuck = stuck
        self._n_calls = self._n_streams = self._n_events = 0
        self._to_make: deque[StreamCall] = deque()
        self._is_making = False
        self._of_stream: dict[int, deque[StreamCall]] = {}
        self._awaited: StreamCall | None = None
        self._stops = False

    @property
    def open_calls(self) -> Iterator[StreamCall]:
        """The calls that have not ended: stream by stream those that the driver has made, then the others."""
        for calls in self._of_stream.values():
            yield from (each for each in calls if not each.has_ended)
        yield from self._to_make

    def restart(self) -> None:
        """Numbers streams, events and calls from 0 again. All calls have ended."""
        self._n_calls = self._n_streams = self._n_events = 0

    def new_stream(self) -> int:
        """Returns the number of a new stream."""
        self._n_streams += 1
        return self._n_streams - 1

    def new_event(self, line: str) -> HostEvent:
        """Returns a new event, which *line* makes."""
        self._n_events += 1
        return HostEvent(self._n_events - 1, line)

    def add(self, call: StreamCall) -> StreamCall:
        """Has the driver make *call* after all earlier calls. Nothing happens on the chip before `wait_for`.

        Raises KernelError where *call* records an event a second time.
        """
        if call.kind is HostCallKind.RECORD and call.event is not None:
            first = call.event.recorded_by
            if first is not None:
                got = f"event {call.event.number} a second time, after {first.line}"
                raise KernelError(
                    f"{call.line}: record", got, "an event that nobody has recorded", "make another event"
                )
            call.event.recorded_by = call
        call.number = self.take_number()
        self._under_way.call()
        self._to_make.append(call)
        if not self._is_making:
            self._is_making = True
            self._make_next()
        return call

    def take_number(self) -> int:
        """Returns the number of the next call, which belongs to another one then."""
        self._n_calls += 1
        return self._n_calls - 1

    def wait_for(self, call: StreamCall | None = None) -> None:
        """Has the clock run until *call* has ended, or, without it, until all calls have."""
        while self._under_way.n_calls if call is None else not call.has_ended:
            self._awaited, self._stops = call, False
            self._run()
            if self._under_way.n_calls if call is None else not call.has_ended:
                self._stuck()

    def _make_next(self) -> None:
        call = self._to_make[0]
        call.called_ps = self._clock.now_ps
        self._clock.call_at(call.called_ps + self._overhead_ps(), self._made, call)

    def _made(self, call: StreamCall) -> None:
        """The driver has made *call* now."""
        call.made_ps = self._clock.now_ps
        self._to_make.popleft()
        self._is_making = bool(self._to_make)
        if self._is_making:
            self._make_next()
        self._of_stream.setdefault(call.stream, deque()).append(call)
        self._advance([call.stream])

    def _advance(self, streams: Sequence[int]) -> None:
        """Begins all calls of *streams*, and of streams that wait for them, that may begin now."""
        todo = deque(streams)
        while todo:
            todo.extend(self._advance_one(todo.popleft()))

    def _advance_one(self, stream: int) -> list[int]:
        """Begins all calls of *stream* that may begin now. Returns the streams that wait for events that happen."""
        calls, woken = self._of_stream.get(stream, deque()), list[int]()
        while calls and calls[0].has_ended:
            calls.popleft()
        ahead: list[StreamCall] = []
        for call in calls:
            if call.has_ended:
                continue
            if call.kind is HostCallKind.WAIT:
                if not self._passes(call, not ahead):
                    break
            elif call.kind is HostCallKind.RECORD:
                if not ahead:
                    self._end(call)
                    woken += self._woken(call.event)
                    continue
                ahead.append(call)
            elif call.has_started or _may_begin(call, ahead):
                ahead.append(call)
                self._begin(call)
            else:
                break
        return woken

    def _passes(self, call: StreamCall, is_next: bool) -> bool:
        """Whether *call*, which waits for an event, waits no more. *is_next* says that its stream waits too."""
        event = call.event
        assert event is not None, "the call waits for an event"
        if event.has_happened:
            self._end(call)
            return True
        if is_next and not call.has_started:
            call.start_ps = self._clock.now_ps
        if call.stream not in event.waiting:
            event.waiting.append(call.stream)
        return False

    def _woken(self, event: HostEvent | None) -> list[int]:
        """The streams whose next call waits for *event*, which has happened."""
        assert event is not None, "the call records an event"
        woken, event.waiting = event.waiting, []
        return woken

    def _begin(self, call: StreamCall) -> None:
        if call.has_started:
            return
        call.start_ps = self._clock.now_ps
        assert call.start is not None, "a call that orders others has no work"
        call.start(lambda: self._work_ended(call))

    def _work_ended(self, call: StreamCall) -> None:
        self._end(call)
        self._advance([call.stream])

    def _end(self, call: StreamCall) -> None:
        now_ps = call.end_ps = self._clock.now_ps
        if not call.has_started:
            call.start_ps = now_ps
        self._under_way.call_ended()
        self._ended(call)
        if not self._stops and (call is self._awaited or not self._under_way.n_calls):
            self._stops = True
            self._clock.call_at(now_ps, self._stop, call)

    def _stop(self, _: Any) -> None:
        self._clock.stop()


def _may_begin(call: StreamCall, ahead: Sequence[StreamCall]) -> bool:
    """Whether *call* may begin while the calls *ahead* of it in its stream have not ended.

    A launch is sent ahead where all of them are launches, or records, that the same block keeps.
    """
    others = [each for each in ahead if each.kind is not HostCallKind.RECORD]
    if not others:
        return True
    if call.kind is not HostCallKind.LAUNCH or len(others) >= call.depth:
        return False
    return all(each.kind is HostCallKind.LAUNCH and each.receiver is call.receiver for each in others)
