"""TransferRows: the op log's table `transfers`, which divides the time of a DMA service.

Most requests meet no other request. They take the same time as the first such request of their kind (one leg, one size,
read or write), so only that request has a row. Every other row is of a request that waited or shared a link, or whose
memory does not give the time at which it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error
from typing import Any, ClassVar

from kb_dataexec.log.compressed import int64s
from kb_engine.block.fabric_roles import MemoryComponent, said_read_latency_ps
from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_visitor import MOMENT, OP, State, only_with, optional, row
from kb_engine.fabric.incoming_write import IncomingWrite
from kb_engine.fabric.interleaved import Gathering
from kb_engine.fabric.lazy_reads import NOT_YET, LazyTransfers, ReadWay, pack_row
from kb_engine.fabric.paths import Flow, MemoryPath
from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve
from kb_engine.fabric.transfer import ServedRead
from kb_messages import Rectangle


class WatchedWrite(IncomingWrite):
    """An IncomingWrite that keeps the time at which the memory began with its last part, and the op before it.

    Parts that follow one another at the memory without a pause count as one. `since_ps` is the time at which the first
    byte of the last part came, and `held_ps` the begin and the end of the time in which its bytes hold the memory.
    """

    __slots__ = ("_holders", "_port", "behind_op", "held_ps", "op_id", "since_ps")
    state: ClassVar[State] = {
        "op_id": OP,
        "behind_op": OP,
        "held_ps": optional(row(MOMENT, MOMENT)),
        "since_ps": only_with("held_ps", MOMENT),
    }

    def __init__(self, memory: MemoryComponent[Any], rectangle: Rectangle, holders: list[int], op_id: int) -> None:
        super().__init__(memory, rectangle)
        self._holders = holders
        self._port = int(memory.has_write_port)
        self.op_id = op_id
        self.behind_op = -1
        self.since_ps = 0
        self.held_ps: tuple[int, int] | None = None

    def _reserve(self, parts: list[Rectangle], now_ps: int) -> None:
        if not parts:
            return
        behind_op, self._holders[self._port] = self._holders[self._port], self.op_id
        before = self.held_ps
        for part in parts:
            super()._reserve([part], now_ps)
            held_ps = self._memory.held_ps(part, True)
            if held_ps is None:
                continue
            if before is not None and behind_op == self.op_id and held_ps[0] == before[1]:
                before = self.held_ps = before[0], held_ps[1]
            else:
                self.since_ps, self.behind_op = self._since_ps, behind_op
                before = self.held_ps = held_ps
                behind_op = self.op_id


class AtomicWrite(WatchedWrite):
    """A write whose bytes the memory reads first.

    The read begins when the last operand byte has come, and the write follows it at once, so nothing comes in between.
    For the op log the whole time at the memory is one part of the service.
    """

    __slots__ = ()

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """Bytes that come wait for the last one."""

    def hand_over(self, now_ps: int) -> None:
        """Does nothing: a request that is served next comes before the atomic."""

    def ask(self, then: Callable[[int], None]) -> None:
        """Asks for the read, and, once it has its time, for the write behind it."""

        def write(_: int, read_ps: int) -> None:
            self._memory.request(self._rectangle, read_ps, True, lambda _, committed_ps: then(committed_ps))

        self._memory.request(self._rectangle, 0, False, write)

    def finish(self, now_ps: int) -> int:
        """Reads and writes, because the last byte has come. Returns the time of the commit."""
        self._holders[:] = [self.op_id] * len(self._holders)
        _, read_ps = self._memory.reserve(now_ps, self._rectangle, now_ps, False)
        _, self._committed_ps = self._memory.reserve(now_ps, self._rectangle, read_ps, True)
        return self._committed_ps


class TransferRows:
    """Makes the rows of one chip.

    *rows* takes them, and *number_of* gives the number of a memory's id in the log. `add` is that of *rows*.
    """

    def __init__(self, rows: LazyTransfers, number_of: Callable[[str], int]) -> None:
        self._rows = rows
        self._keep = rows.tail.append
        self.add = rows.add
        self._number_of = number_of

    def write(self, path: MemoryPath, memory: Rectangle, argument: Any) -> WatchedWrite:
        """The WatchedWrite of *memory*, which begins. *argument* is the token of its tile, if it is a DMA service."""
        return WatchedWrite(path.memory, memory, path.requests.holders, op_of(argument))

    def read_served(
        self, path: MemoryPath, flow: Flow, memory: Rectangle, argument: Any, leaves_ps: tuple[int, int]
    ) -> ServedRead:
        """The data of the read for which the memory was reserved just now.

        Its first and last byte leave at *leaves_ps*.
        """
        if flow.way < 0:
            self._begin_way(path, flow)
        holders = path.requests.holders
        op_id = argument.first_op_id + argument.index if type(argument) is TileToken else op_of(argument)
        behind_op, holders[0] = holders[0], op_id
        head_ps, tail_ps = leaves_ps
        latency_ps = flow.memory_ps
        if latency_ps is not None:
            return op_id, behind_op, head_ps - latency_ps, head_ps, tail_ps
        held_ps = path.memory.held_ps(memory, False)
        return op_id, behind_op, -1 if held_ps is None else held_ps[0], head_ps, tail_ps

    def read_joined(self, path: MemoryPath, flow: Flow, argument: Any, first: ServedRead, start_ps: int) -> ServedRead:
        """The data of a read that gets a copy of the answer to *first*, from the arrival of its own request on."""
        if flow.way < 0:
            self._begin_way(path, flow)
        _, behind_op, served_ps, head_ps, tail_ps = first
        if served_ps >= 0:
            served_ps = max(served_ps, start_ps + path.request_ps)
        return op_of(argument), behind_op, served_ps, head_ps, tail_ps

    def read_ended(
        self, path: MemoryPath, flow: Flow, argument: Any, served: ServedRead, times_ps: tuple[int, int, int]
    ) -> None:
        """The end of a read is known. *times_ps*: now, when its request left, and when its last byte arrives.

        Raises LogError for a time that does not fit 64 bits.
        """
        now_ps, t_sent, t_end = times_ps
        op_id, behind_op, t_served, t_first, t_last = served
        alone_ps = flow.read_alone_ps
        if alone_ps == t_end - t_sent or op_id < 0:
            return
        if type(argument) is Gathering:
            own_link_ps = argument.own_link_ps
            row = op_id, flow.way, t_sent, t_end, t_served, t_first, t_last, NOT_YET, own_link_ps, behind_op
            argument.offer(row, t_end)
            return
        if alone_ps == -1 and t_served == t_sent + path.request_ps:
            shares_links = t_end - path.response_ps > max(t_first + flow.slowest_ps, t_last)
            flow.read_alone_ps = -1 if shares_links else t_end - t_sent
        try:
            self._keep(
                pack_row(now_ps, op_id, flow.way, t_sent, t_end, t_served, t_first, t_last, NOT_YET, 0, behind_op)
            )
        except error:
            int64s((now_ps, t_sent, t_served, t_first, t_last, t_end))

    def _begin_way(self, path: MemoryPath, flow: Flow) -> None:
        """The first read of *flow* for which there is a log."""
        way = ReadWay(self._number_of(path.dst), path.request_ps, path.response_ps, flow.slowest_ps)
        flow.is_logged(self._rows.number_of(way), said_read_latency_ps(path.memory, flow.payload_nbytes))

    def write_ended(
        self, path: MemoryPath, flow: Flow, argument: Any, write: WatchedWrite, times_ps: tuple[int, int, int, int, int]
    ) -> None:
        """A write is committed. *times_ps*: now, it left, its last byte came, the commit, the end."""
        now_ps, t_sent, came, t_last, t_end = times_ps
        if write.op_id < 0 or flow.write_alone_ps == t_end - t_sent:
            return
        head, behind_op, held_ps = t_sent + path.request_ps, -1, write.held_ps
        gathering = argument if type(argument) is Gathering else None
        slowest_ps = flow.slowest_ps if gathering is None else max(flow.slowest_ps, gathering.own_link_ps)
        shared = max(0, came - head - slowest_ps)
        if held_ps is None:
            t_arrived, t_served, t_first = came, -1, -1
        elif held_ps[1] <= came:
            t_arrived = t_served = t_first = came
        else:
            t_arrived, (t_served, t_first) = write.since_ps, held_ps
            shared = min(shared, t_arrived - head)
            behind_op = write.behind_op if t_served > t_arrived else -1
        if t_served == t_arrived and not shared and flow.write_alone_ps == -1 and gathering is None:
            flow.write_alone_ps = t_end - t_sent
        number = self._number_of(path.dst)
        row = write.op_id, number, t_sent, t_arrived, t_served, t_first, t_last, path.request_ps, shared, behind_op
        if gathering is None:
            self.add(now_ps, row)
        else:
            gathering.offer(row, t_end)


def op_of(argument: Any) -> int:
    """The op of the DMA service that *argument*, a token or a Gathering, belongs to; -1 for other transfers."""
    if type(argument) is TileToken:
        return argument.first_op_id + argument.index
    return argument.op_id if type(argument) is Gathering else -1
