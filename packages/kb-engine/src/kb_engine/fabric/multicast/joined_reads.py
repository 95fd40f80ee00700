"""JoinedReads: reads of the same bytes whose requests were at the memory before the first byte left."""

from __future__ import annotations

from kb_engine.fabric.memory_requests import MemoryRequests
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
        """Take *transfer* in, unless its block is among the receivers."""
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
        """More reads can join *joined*, and none the one of the same bytes before."""
        memory = joined.members[0].memory
        assert memory is not None
        self._open.setdefault(requests, {})[memory] = joined

    def leaves(self, requests: MemoryRequests, joined: JoinedReads) -> None:
        """The first byte of *joined* leaves the memory: no read can join."""
        memory, mine = joined.members[0].memory, self._open[requests]
        assert memory is not None
        if mine.get(memory) is joined:
            del mine[memory]

    def written(self, requests: MemoryRequests, memory: Rectangle) -> None:
        """Bytes of *memory* are written: reads that come later get others than those that came before."""
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
