"""Estimates the time of a collective: a recursion over the acts of all ranks, in integer picoseconds.

Each rank has a clock, and its DMA serves reads and writes one after the other. A rank that waits for a message or a
credit goes on at the time that follows from the acts of its peer. Links and memories are never busy with others.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from kb_engine.collectives.acts import Act, ActKind, Acts
from kb_engine.collectives.costs import RankTimes, SendTimes
from kb_engine.collectives.sizes import Sizes
from kb_engine.sync.channel import SLOT_NBYTES

_Key = tuple[int, int, int]
_MOST_AT_HOME: Final = 8
"""The last requests to a rank's memory that may hold up the next one. Source: assumed; a DMA has fewer under way."""


class Estimate(NamedTuple):
    """The picoseconds after the begin at which each rank has ended, and the number and bytes of all messages."""

    ends_ps: tuple[int, ...]
    n_messages: int
    nbytes: int

    @property
    def total_ps(self) -> int:
        """Picoseconds until the last rank has ended."""
        return max(self.ends_ps)

    def continued(self, less: Estimate, more: Estimate, count: int) -> Estimate:
        """This estimate and *count* segments more, each of which adds as much as *more* has more than *less*."""
        ends_ps = [
            end + count * (then - now) for end, now, then in zip(self.ends_ps, less.ends_ps, more.ends_ps, strict=True)
        ]
        n_messages = self.n_messages + count * (more.n_messages - less.n_messages)
        return Estimate(tuple(ends_ps), n_messages, self.nbytes + count * (more.nbytes - less.nbytes))


class _Channel:
    """The credits and the messages of one channel, each with the picosecond at which it is there."""

    __slots__ = ("_waiter", "credits", "rung")

    def __init__(self, depth: int) -> None:
        self.credits: deque[int] = deque([0] * depth)
        self.rung: deque[int] = deque()
        self._waiter = -1

    def awaited_by(self, rank: int) -> None:
        """Notes that *rank* waits for the channel."""
        self._waiter = rank

    def take_waiter(self) -> int:
        """The rank that waits, -1 for none. From now on none does."""
        rank, self._waiter = self._waiter, -1
        return rank


class _Content:
    """Elements of a rank: `ready_ps` is when their load ends, `channel` has the slot in which they lie, or None."""

    __slots__ = ("channel", "is_wide", "ready_ps", "used_ps")

    def __init__(self, ready_ps: int, is_wide: bool = False, channel: _Key | None = None) -> None:
        self.ready_ps = ready_ps
        self.is_wide = is_wide
        self.channel = channel
        self.used_ps = 0

    def is_used_until(self, end_ps: int) -> None:
        """Notes that a command uses the elements until *end_ps*."""
        self.used_ps = max(self.used_ps, end_ps)


class Recursion:
    """The acts of all *ranks* of a collective, of *sizes*, with operands in memory or, with *in_tcm*, in TCM.

    *times* are those of the ranks' PEs. `run` plays all acts, and ends early when a rank is beyond *limit_ps*.
    """

    def __init__(
        self, times: list[RankTimes], sizes: Sizes, in_tcm: tuple[bool, bool], depth: Callable[[int], int],
        limit_ps: int | None = None,
    ) -> None:  # fmt: skip
        self.times = times
        self.sizes = sizes
        self.x_in_tcm, self.out_in_tcm = in_tcm
        self.limit_ps = limit_ps
        self.n_messages = self.nbytes = 0
        self.sends: dict[tuple[int, int, int], SendTimes] = {}
        self.ways: dict[tuple[int, int], int] = {}
        self._depth = depth
        self._channels: dict[_Key, _Channel] = {}
        self.ready: deque[int] = deque()

    def run(self, acts: list[Acts]) -> Estimate | None:
        """The estimate; None where it is beyond the limit."""
        ranks = [_Rank(self, number, times) for number, times in enumerate(self.times)]
        played = [rank.play(each) for rank, each in zip(ranks, acts, strict=True)]
        self.ready.extend(range(len(ranks)))
        while self.ready:
            number = self.ready.popleft()
            channel = next(played[number], None)
            if self.limit_ps is not None and ranks[number].now_ps > self.limit_ps:
                return None
            if channel is not None:
                channel.awaited_by(number)
        return Estimate(tuple(rank.end_ps for rank in ranks), self.n_messages, self.nbytes)

    def channel(self, source: int, to: int, nbytes: int) -> tuple[_Key, _Channel]:
        """The channel of messages of slots of *nbytes*, rounded up."""
        key = source, to, -(-nbytes // SLOT_NBYTES) * SLOT_NBYTES
        found = self._channels.get(key)
        if found is None:
            found = self._channels[key] = _Channel(self._depth(to))
        return key, found

    def send_times(self, source: int, to: int, nbytes: int) -> SendTimes:
        """The times of a message."""
        key = source, to, nbytes
        found = self.sends.get(key)
        if found is None:
            found = self.sends[key] = self.times[source].send(self.times[to], nbytes)
        return found

    def credit(self, key: _Key, free_ps: int) -> None:
        """A slot of the channel of *key* is free at *free_ps*: its credit goes to the sender."""
        source, to, _ = key
        way = self.ways.get((to, source))
        if way is None:
            way = self.ways[to, source] = self.times[to].way_ps(self.times[source])
        queue = self.times[to].pe.queue
        assert queue is not None, "it has received a message"
        channel = self._channels[key]
        channel.credits.append(free_ps + queue.credit_ps() + way)
        self.wake(channel)

    def wake(self, channel: _Channel) -> None:
        """Lets the rank that waits for *channel* go on."""
        rank = channel.take_waiter()
        if rank >= 0:
            self.ready.append(rank)

    def count(self, nbytes: int) -> None:
        """Counts a message."""
        self.n_messages += 1
        self.nbytes += nbytes


class _Rank:
    """One rank: its clock, its scheduler and its DMA."""

    def __init__(self, whole: Recursion, number: int, times: RankTimes) -> None:
        self.whole = whole
        self.number = number
        self.times = times
        self.now_ps = self._decoded_ps = self._fed_ps = 0
        self._ends: tuple[list[int], list[int]] = [], []
        self._begins = tuple(deque[int](maxlen=depth) for depth in times.queue_depths)
        self._next_ps = [0, 0]
        self._outstanding = times.dma.outstanding
        self._contents: dict[tuple[int, int], _Content] = {}
        self._last_end_ps = 0
        self._stored_ps = 0
        self._at_home: deque[tuple[int, int]] = deque(maxlen=_MOST_AT_HOME)
        self._done: list[tuple[int, int]] = []

    @property
    def end_ps(self) -> int:
        """When all commands of the rank are done."""
        return max(self.now_ps, self._last_end_ps)

    def play(self, acts: Acts) -> Generator[_Channel, None, None]:
        """Plays *acts*. Yields a channel whenever the rank waits for it."""
        plays: dict[ActKind, Callable[[Act], Any]] = {
            ActKind.LOAD: self._load,
            ActKind.KEEP: self._keep,
            ActKind.JOIN: self._join,
            ActKind.DONE: self._finish,
        }
        for act in acts:
            kind = act.kind
            if kind is ActKind.SEND:
                yield from self._send(act)
            elif kind is ActKind.REDUCE:
                yield from self._reduce(act)
            elif kind is ActKind.TAKE:
                yield from self._take(act)
            else:
                plays[kind](act)
        self.now_ps = max(self.now_ps, self._stored_ps)
        if len(self._done) > 1:
            lengths = [stop - start for start, stop in sorted(self._done)]
            self._compute(self.times.join_ps(lengths, self.whole.sizes.dtype))

    def _issue(self) -> int:
        """Issues a command now. Returns when it is decoded."""
        times = self.times
        self.now_ps += times.issue_ps
        self._decoded_ps = max(self._decoded_ps, self.now_ps) + times.decode_ps
        return self._decoded_ps

    def _move(self, decoded_ps: int, write: bool, alone_ps: int) -> int:
        """Begins a read or a write of the DMA. Returns when that begins."""
        ends, begins = self._ends[write], self._begins[write]
        # The feeder waits for room in the DMA's queue, and later commands wait for the feeder.
        room_ps = begins[0] if len(begins) == begins.maxlen else 0
        self._fed_ps = max(decoded_ps, self._fed_ps, room_ps)
        begin_ps = max(self._fed_ps, self._next_ps[write])
        if len(ends) >= self._outstanding:
            begin_ps = max(begin_ps, heappop(ends))
        heappush(ends, begin_ps + alone_ps)
        begins.append(begin_ps)
        self._next_ps[write] = begin_ps + self.times.setups_ps[write]
        self._last_end_ps = max(self._last_end_ps, begin_ps + alone_ps)
        return begin_ps

    def _move_at_home(self, size: int, write: bool) -> int:
        """Loads or stores *size* elements. Returns when that ends.

        The memory serves the requests of the rank in the order in which they arrive.
        """
        move = self.times.move(size * self.whole.sizes.dtype.nbytes, write)
        begin_ps = self._move(self._issue(), write, move.alone_ps)
        arrival_ps = begin_ps + move.arrival_ps
        free_ps = max([end for arrived, end in self._at_home if arrived <= arrival_ps], default=0)
        served_ps = max(arrival_ps, free_ps) + move.occupied_ps
        self._at_home.append((arrival_ps, served_ps))
        late_ps = max(served_ps, arrival_ps + move.links_ps) - arrival_ps - max(move.occupied_ps, move.links_ps)
        end_ps = begin_ps + move.alone_ps + late_ps
        ends = self._ends[write]
        ends.remove(begin_ps + move.alone_ps)
        heapify(ends)
        heappush(ends, end_ps)
        self._last_end_ps = max(self._last_end_ps, end_ps)
        return end_ps

    def _compute(self, alone_ps: int) -> None:
        """Waits for a math command."""
        self._fed_ps = max(self._issue(), self._fed_ps)
        self.now_ps = self._fed_ps + alone_ps

    def _load(self, act: Act) -> None:
        ready_ps = 0
        if not self.whole.x_in_tcm:
            ready_ps = self._move_at_home(act.size, False)
        self._contents[act.start, act.stop] = _Content(ready_ps)

    def _content(self, act: Act) -> _Content:
        """The content that has the elements of *act*, or, for a part of a content, that content."""
        found = self._contents.get((act.start, act.stop))
        if found is not None:
            return found
        return next(each for (start, stop), each in self._contents.items() if start <= act.start and act.stop <= stop)

    def _await(self, content: _Content) -> None:
        self.now_ps = max(self.now_ps, content.ready_ps)

    def _send(self, act: Act) -> Generator[_Channel, None, None]:
        whole, content = self.whole, self._content(act)
        nbytes = act.size * (whole.sizes.wide if act.is_wide else whole.sizes.dtype).nbytes
        self._await(content)
        _, channel = whole.channel(self.number, act.peer, nbytes)
        while not channel.credits:
            yield channel
        self.now_ps = max(self.now_ps, channel.credits.popleft())
        times = whole.send_times(self.number, act.peer, nbytes)
        begin_ps = self._move(self._issue(), True, times.acknowledge_ps)
        queue = whole.times[act.peer].pe.queue
        assert queue is not None, "a group of several PEs has queues"
        channel.rung.append(begin_ps + times.commit_ps + queue.doorbell_ps())
        whole.count(nbytes)
        content.is_used_until(begin_ps + times.acknowledge_ps)
        if act.is_last:
            self._drop(act)
        whole.wake(channel)

    def _receive(self, act: Act) -> Generator[_Channel, None, _Key]:
        whole = self.whole
        nbytes = act.size * (whole.sizes.wide if act.is_wide else whole.sizes.dtype).nbytes
        key, channel = whole.channel(act.peer, self.number, nbytes)
        while not channel.rung:
            yield channel
        self.now_ps = max(self.now_ps + self.times.call_ps, channel.rung.popleft())
        return key

    def _reduce(self, act: Act) -> Generator[_Channel, None, None]:
        own, whole = self._content(act), self.whole
        self._contents.pop((act.start, act.stop), None)
        key = yield from self._receive(act)
        self._await(own)
        cost_ps = self.times.reduce_ps(whole.sizes, act.size, act.is_wide, own.is_wide, act.is_last, len(whole.times))
        self._compute(cost_ps)
        whole.credit(key, self.now_ps)
        self._contents[act.start, act.stop] = _Content(0, not act.is_last)

    def _take(self, act: Act) -> Generator[_Channel, None, None]:
        key = yield from self._receive(act)
        self._contents[act.start, act.stop] = _Content(0, act.is_wide, key)

    def _keep(self, act: Act) -> None:
        content = self._contents[act.start, act.stop]
        self._compute(self.times.copy_ps(act.size, self.whole.sizes.dtype))
        self._drop(act)
        self._contents[act.start, act.stop] = _Content(0, content.is_wide)

    def _join(self, act: Act) -> None:
        inside = [key for key in self._contents if act.start <= key[0] and key[1] <= act.stop]
        parts = sorted(key for key in inside if key != (act.start, act.stop))
        if parts:
            for key in parts:
                del self._contents[key]
            self._compute(self.times.join_ps([stop - start for start, stop in parts], self.whole.sizes.dtype))
            self._contents[act.start, act.stop] = _Content(0)

    def _finish(self, act: Act) -> None:
        content = self._contents[act.start, act.stop]
        if self.whole.out_in_tcm:
            if content.channel is not None:
                self._keep(act)
            self._contents.pop((act.start, act.stop))
            self._done.append((act.start, act.stop))
            return
        self._await(content)
        end_ps = self._move_at_home(act.size, True)
        content.is_used_until(end_ps)
        self._stored_ps = max(self._stored_ps, end_ps)
        self._drop(act)

    def _drop(self, act: Act) -> None:
        """Gives the slot of the elements of *act* back, when their commands are done."""
        content = self._contents.pop((act.start, act.stop), None)
        if content is not None and content.channel is not None:
            self.whole.credit(content.channel, max(self.now_ps, content.used_ps))
