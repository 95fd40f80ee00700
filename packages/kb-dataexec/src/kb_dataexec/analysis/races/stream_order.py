"""StreamOrder: the order that streams, events and the host's looks put between launches and transfers of the host.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from kb_dataexec.analysis.hazards import HOST
from kb_dataexec.analysis.races.far_accesses import Accesses, AccessKind
from kb_dataexec.arrays.dtypes import Array
from kb_messages import HostCallKind

_NONE: Final = -1
_READ: Final = "host_read"


class StreamOrder:
    """Finds which calls of the table *calls* come before which. A launch without a row comes before or after all.

    A call comes after the earlier calls of its stream, and after those that come before an event for which its stream
    has waited, or that the host's Python had looked at before it called.
    """

    def __init__(self, calls: Array) -> None:
        self._calls = np.sort(calls, order="number")
        self.streams, at = np.unique(self._calls["stream"], return_inverse=True)
        self._stream = at.reshape(-1)
        self._before = self._clocks()
        launches = np.flatnonzero(self._calls["call_kind"] == HostCallKind.LAUNCH)
        self._of_launch = dict(zip(self._calls["launch"][launches].tolist(), launches.tolist(), strict=True))
        is_whole = (self._calls["call_kind"] == HostCallKind.LOOK) & (self._calls["event"] == _NONE)
        self._period = np.cumsum(is_whole)

    def call_of_launches(self, launch: Array) -> Array:
        """The row of the call of each launch; -1 for a launch without a stream."""
        numbers = np.unique(launch)
        found = np.array([self._of_launch.get(each, _NONE) for each in numbers.tolist()], np.int64)
        return found[np.searchsorted(numbers, launch)] if len(numbers) else np.empty(0, np.int64)

    def groups(self, call: Array, launch: Array) -> Array:
        """A number for each access: accesses of other numbers are in order. *call* and *launch* are those of accesses.

        Between two looks at all calls, calls of several streams may be in no order.
        """
        known = self._calls["call_kind"] <= HostCallKind.COPY
        pairs = np.unique(np.stack([self._period[known], self._stream[known]]), axis=1)
        several = np.bincount(pairs[0], minlength=len(self._calls) + 1) > 1
        period = np.where(call >= 0, self._period[call], 0)
        shared = (call >= 0) & several[period]
        own = int(self._period.max(initial=0)) + 1 + np.where(call >= 0, call, len(self._calls) + launch)
        result: Array = np.where(shared, period, own)
        return result

    def line(self, call: int) -> int:
        """The string number of the line of a call, by its row."""
        return int(self._calls["line"][call])

    def stream(self, call: int) -> int:
        """The number of the stream of a call, by its row."""
        return int(self._calls["stream"][call])

    def are_ordered(self, first: Array, second: Array) -> Array:
        """Whether one call of each pair of rows comes before the other one, and is another one."""
        number = self._calls["number"]
        found = number[first] < self._before[second, self._stream[first]]
        found |= number[second] < self._before[first, self._stream[second]]
        result: Array = found & (first != second)
        return result

    def accesses(self, found: Accesses, reads: Array, strings: Sequence[str]) -> tuple[Accesses, Array]:
        """The accesses of writes and copies among *found*, moves of the host, and those of *reads*, the table.

        Returns them with the row of the call of each.
        """
        moves = np.flatnonzero(self._calls["end_seq"] > self._calls["first_seq"])
        moves = moves[self._calls["first_seq"][moves] >= 0]
        order = moves[np.argsort(self._calls["first_seq"][moves], kind="stable")]
        at = np.searchsorted(self._calls["first_seq"][order], found.command_seq, side="right") - 1
        call = np.append(order, _NONE)[at] if len(order) else np.full(len(at), _NONE)
        mine = (at >= 0) & (found.command_seq < np.append(self._calls["end_seq"], 0)[call])
        rows = self._read_rows(reads)
        return Accesses.joined([found.at(mine), self._reads(reads, rows, strings)]), np.concatenate([call[mine], rows])

    def _read_rows(self, reads: Array) -> Array:
        at = np.searchsorted(self._calls["number"], reads["call"])
        result: Array = np.minimum(at, max(len(self._calls) - 1, 0))
        return result

    def _reads(self, reads: Array, rows: Array, strings: Sequence[str]) -> Accesses:
        calls = self._calls[rows]
        none = np.full(len(reads), _NONE, np.int64)
        texts = [strings.index(each) if each in strings else 0 for each in (_READ, HOST)]
        name, component = (np.full(len(reads), each) for each in texts)
        rectangle = {each: reads[each].astype(np.int64) for each in ("owner", "offset", "rows", "row_nbytes", "stride")}
        return Accesses(
            op_id=none,
            command_seq=calls["first_seq"],
            name=name,
            component=component,
            line=calls["line"],
            t_start_ps=calls["t_start_ps"],
            t_end_ps=calls["t_end_ps"],
            kind=np.full(len(reads), AccessKind.READ),
            **rectangle,
        )

    def _clocks(self) -> Array:
        """For each call and stream, the number below which calls of that stream come before the call.

        The calls come in the order in which Python made them. A call that waits for an event of a later call, and those
        behind it, are looked at when that call was.
        """
        calls, n_streams = self._calls, len(self.streams)
        before = np.zeros((len(calls), n_streams), np.int64)
        clocks, host = np.zeros((n_streams, n_streams), np.int64), np.zeros(n_streams, np.int64)
        waiting: list[deque[tuple[int, Array]]] = [deque() for _ in range(n_streams)]
        recorded: dict[int, Array] = {}
        kinds, events, numbers = (calls[name].tolist() for name in ("call_kind", "event", "number"))

        def goes_on(stream: int) -> bool:
            """Looks at the calls of *stream* that wait for nothing. Returns whether one of them recorded an event."""
            queue, clock, records = waiting[stream], clocks[stream], False
            while queue and (kinds[queue[0][0]] != HostCallKind.WAIT or events[queue[0][0]] in recorded):
                at, known = queue.popleft()
                np.maximum(clock, known, out=clock)
                if kinds[at] == HostCallKind.WAIT:
                    np.maximum(clock, recorded[events[at]], out=clock)
                before[at] = clock
                clock[stream] = numbers[at] + 1
                if kinds[at] == HostCallKind.RECORD:
                    recorded[events[at]], records = clock.copy(), True
            return records

        for at, (kind, stream) in enumerate(zip(kinds, self._stream.tolist(), strict=True)):
            if kind == HostCallKind.LOOK:
                host = self._looked(events[at], at, host, before)
                continue
            waiting[stream].append((at, host))
            todo = [stream]
            while todo:
                if goes_on(todo.pop()):
                    todo = [each for each in range(n_streams) if waiting[each]]
        return before

    def _looked(self, number: int, at: int, host: Array, before: Array) -> Array:
        """What the host's Python knows after the look in row *at*, at call *number* or at all calls. *host* is what it
        knew before."""
        if number == _NONE:
            return np.full(len(host), self._calls["number"][at])
        row = int(np.searchsorted(self._calls["number"], number))
        found: Array = np.maximum(host, before[row])
        found[self._stream[row]] = max(int(found[self._stream[row]]), number + 1)
        return found
