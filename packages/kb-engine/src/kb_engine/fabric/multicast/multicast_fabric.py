"""MulticastFabric: the fabric of a chip that serves reads of the same bytes by one read of the memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from simpy.events import NORMAL

from kb_engine.block.component import ComponentBase
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.incoming_write import MemoryRequests
from kb_engine.fabric.interleaved import InterleavedPath
from kb_engine.fabric.multicast.multicast_fork import MulticastFork
from kb_engine.fabric.multicast.route_tree import RouteTree, TreeBuilder
from kb_engine.fabric.paths import MemoryPath
from kb_engine.fabric.sharing.arrival_curve import SteadyPace
from kb_engine.fabric.sharing.stream import Stream
from kb_engine.fabric.transfer import Transfer
from kb_messages import CountedPieces, Rectangle, overlaps


class JoinedReads:
    """Reads that one service of the memory answers. The first byte leaves at `head_ps`, -1 while that is not known."""

    __slots__ = ("_sources", "head_ps", "members", "tail_ps")

    def __init__(self, first: Transfer) -> None:
        self.members = [first]
        self._sources = {_source(first)}
        self.head_ps = self.tail_ps = -1

    def is_served(self, head_ps: int, tail_ps: int) -> None:
        """The first and the last byte leave the memory at *head_ps* and at *tail_ps*."""
        self.head_ps, self.tail_ps = head_ps, tail_ps

    def takes(self, transfer: Transfer) -> bool:
        """Takes *transfer* in, unless its block is a receiver already."""
        source = _source(transfer)
        if source in self._sources:
            return False
        self._sources.add(source)
        self.members.append(transfer)
        return True


class OpenReads:
    """The reads of all memories that more reads can join, up to *receivers* together."""

    def __init__(self, receivers: int) -> None:
        self._receivers = receivers
        self._open: dict[MemoryRequests, dict[Rectangle, JoinedReads]] = {}

    def join(self, requests: MemoryRequests, transfer: Transfer) -> bool:
        """Whether *transfer*, whose request is at the memory now, joins a read of its bytes."""
        assert transfer.memory is not None
        mine = self._open.get(requests)
        joined = None if mine is None else mine.get(transfer.memory)
        if mine is None or joined is None or not joined.takes(transfer):
            return False
        if len(joined.members) == self._receivers:
            del mine[transfer.memory]
        return True

    def open(self, requests: MemoryRequests, joined: JoinedReads) -> None:
        """Opens *joined* to more reads, and closes an earlier read of the same bytes."""
        memory = joined.members[0].memory
        assert memory is not None
        self._open.setdefault(requests, {})[memory] = joined

    def leaves(self, requests: MemoryRequests, joined: JoinedReads) -> None:
        """Closes *joined* to more reads, because its first byte leaves the memory."""
        memory, mine = joined.members[0].memory, self._open[requests]
        assert memory is not None
        if mine.get(memory) is joined:
            del mine[memory]

    def written(self, requests: MemoryRequests, memory: Rectangle) -> None:
        """Notes that bytes of *memory* are written: later reads get other bytes than earlier ones."""
        mine = self._open.get(requests)
        for each in [each for each in mine or () if _overlap(each, memory)]:
            del self._open[requests][each]


def _source(transfer: Transfer) -> str:
    assert transfer.path is not None
    return transfer.path.src


def _overlap(first: Rectangle, second: Rectangle) -> bool:
    """Whether the two have a byte in common."""
    return any(overlaps(one, other) for one in _pieces(first) for other in _pieces(second))


def _pieces(memory: Rectangle) -> tuple[Rectangle, ...]:
    return memory.pieces if isinstance(memory, CountedPieces) else (memory,)


_Path = MemoryPath | InterleavedPath
_Finish = Callable[[Any], None]

_LAST: Final = NORMAL + 1
"""The priority of departures: requests that come in the same picosecond are there before."""


class MulticastFabric(Fabric):
    """A Fabric in which up to *receivers* blocks that read the same bytes get copies of one answer.

    A read joins another one if its request is at the memory before the first byte leaves, and if no write to these
    bytes came between the two. The answer goes over the tree of the routes, each link once.
    """

    is_foreseen: ClassVar[bool] = False

    def __init__(self, receivers: int, *chip: Any) -> None:
        """*chip* are the arguments of Fabric."""
        super().__init__(*chip)
        self._open = OpenReads(receivers)
        self._builder = TreeBuilder()

    def attach(self, components: Mapping[str, ComponentBase[Any]]) -> None:
        """Gives the fabric the block at each node. Nothing is reserved ahead, because a later request can join."""
        super().attach(components)
        self.wait_for_requests()

    def read(self, path: _Path, memory: Rectangle, start_ps: int, finish: _Finish, argument: Any) -> None:
        """Reads *memory*.

        Each read has a row in the log, because a read that joins takes another time than a read alone.
        """
        if isinstance(path, InterleavedPath):
            self._gather(self.read, path, memory, start_ps, (finish, argument))
            return
        if not memory.nbytes or not path.back.hops:
            super().read(path, memory, start_ps, finish, argument)
            return
        path.requests.awaited += 1
        flow = path.back.pieces_flow(memory.nbytes)
        self._at(start_ps + path.request_ps, self._ask, Transfer(flow, path, memory, None, start_ps, finish, argument))

    def _ask(self, transfer: Transfer) -> None:
        """Joins a read whose request arrives now to another read, or begins a read that others can join."""
        path, memory, now = transfer.path, transfer.memory, self._clock.now_ps
        assert path is not None
        assert memory is not None
        if self._open.join(path.requests, transfer):
            path.requests.awaited -= 1
            return
        self._arrives(path)
        joined = JoinedReads(transfer)
        self._open.open(path.requests, joined)
        if path.memory.reorders:
            path.memory.request(memory, now, False, partial(self._is_served, joined))
        else:
            self._is_served(joined, *path.memory.reserve(now, memory, now, False))

    def _is_served(self, joined: JoinedReads, head_ps: int, tail_ps: int) -> None:
        """The first and the last byte of *joined* leave the memory at *head_ps* and at *tail_ps*."""
        joined.is_served(head_ps, tail_ps)
        first = joined.members[0]
        if self._rows is not None and first.path is not None and first.memory is not None:
            leaves_ps = head_ps, tail_ps
            first.served = self._rows.read_served(first.path, first.flow, first.memory, first.argument, leaves_ps)
        self._clock.push((head_ps, _LAST, next(self._clock.event_order), self._depart, joined))

    def _depart(self, joined: JoinedReads) -> None:
        """Lets the first byte leave the memory now, for all reads that joined."""
        first, members = joined.members[0], joined.members
        assert first.path is not None
        self._open.leaves(first.path.requests, joined)
        if self._rows is not None and first.served is not None:
            for each in members[1:]:
                assert each.path is not None
                each.served = self._rows.read_joined(each.path, each.flow, each.argument, first.served, each.t_start_ps)
        ways = [tuple(each.flow.hops) for each in members]
        for tree in self._builder.trees(ways, first.flow.nbytes):
            self._send_copy(tree, members, joined.head_ps, joined.tail_ps)

    def _send_copy(self, tree: RouteTree, members: list[Transfer], head_ps: int, tail_ps: int) -> None:
        """Sends bytes that are there from *head_ps* to *tail_ps* over *tree*, which begins before any shared link."""
        branch, clock = tree.branch, self._clock
        branch.count()
        head_ps, tail_ps = branch.reserve_ahead(head_ps, tail_ps)
        if branch.shared is not None:
            is_end = tree.receiver >= 0
            end = members[tree.receiver] if is_end else MulticastFork(clock, tree.behind, members, self._deliver)
            stream = Stream(end, branch.shared, SteadyPace(head_ps, tail_ps, branch.nbytes), 0, 0.0)
            clock.push((head_ps, NORMAL, next(clock.event_order), branch.shared.link.arrive, stream))
        elif tree.receiver >= 0:
            self._finish(members[tree.receiver], tail_ps)
        for each in tree.behind if branch.shared is None else ():
            self._send_copy(each, members, head_ps, tail_ps)

    def _deliver(self, transfer: Transfer | MulticastFork) -> None:
        """Ends *transfer*, whose last byte is at the end of its leg or at a node where ways part."""
        if isinstance(transfer, MulticastFork):
            transfer.complete()
            return
        if transfer.incoming is not None and transfer.path is not None and transfer.memory is not None:
            self._open.written(transfer.path.requests, transfer.memory)
        super()._deliver(transfer)
