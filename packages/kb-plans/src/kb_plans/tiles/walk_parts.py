"""The parts of a walk: places that tiles hold, a memory that serves bytes in turn, and the ways of tiles."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kb_messages import StageType


class TilePlaces:
    """Places of which *count* tiles hold one each, up to the end of a stage of type *freed_by*."""

    def __init__(self, count: int, freed_by: StageType) -> None:
        self.count = count
        self.freed_by = freed_by
        self.free_at = deque([0] * count)

    def shift(self, by_ps: int) -> None:
        """Moves all times later by *by_ps*."""
        self.free_at = deque([each + by_ps for each in self.free_at])


class MemoryInTurn:
    """A memory that works on bytes in the order in which they come.

    The bytes of a read are asked for at once, and the bytes of a write come as fast as the memory takes them. `write`
    is (time at which its bytes began to come, time of all its bytes, time of the bytes that have come so far).
    """

    def __init__(self) -> None:
        self.free_ps = 0
        self.write: tuple[int, int, int] | None = None

    def read(self, ready_ps: int, bytes_ps: int) -> int:
        """The time at which the memory begins to serve a read whose request comes at *ready_ps*."""
        if self.write is not None:
            began_ps, write_ps, got_ps = self.write
            came_ps = ready_ps - began_ps
            if came_ps > got_ps:
                self.free_ps = max(self.free_ps + came_ps - got_ps, ready_ps)
                self.write = began_ps, write_ps, came_ps
        if self.free_ps > ready_ps:
            ready_ps = self.free_ps
        self.free_ps = ready_ps + bytes_ps
        return ready_ps

    def begin_write(self, begin_ps: int, bytes_ps: int) -> None:
        """Notes that the bytes of a write come from *begin_ps* on."""
        self.write = begin_ps, bytes_ps, 0

    def end_write(self) -> int:
        """Ends the write, and returns the time at which the memory has served its last byte.

        No other request comes before that byte.
        """
        assert self.write is not None
        began_ps, write_ps, got_ps = self.write
        self.free_ps = max(self.free_ps + write_ps - got_ps, began_ps + write_ps)
        self.write = None
        return self.free_ps

    def shift(self, by_ps: int) -> None:
        """Moves all times later by *by_ps*."""
        self.free_ps += by_ps
        if self.write is not None:
            began_ps, write_ps, got_ps = self.write
            self.write = began_ps + by_ps, write_ps, got_ps


class WalkStep(NamedTuple):
    """A stage of a tile, or the reads of a tile together: the type and the times.

    `enters` are the places of the block that the tile takes, unless the tile is already there. `port` is the number of
    the port or slot where the stage takes turns with others, -1 without one. `frees` are the places that are free at
    the end.
    """

    stage_type: StageType
    enters: TilePlaces | None
    port: int
    alone_ps: int
    holds_ps: int
    memory_ps: int
    frees: tuple[TilePlaces, ...]


class TileWay(NamedTuple):
    """The stages of a tile that bring it in, and the stages with which it leaves.

    `claims` are the places that the tile claims before it is fed, and then the places that it claims with stage
    `claims_at`.
    """

    come: tuple[WalkStep, ...]
    leave: tuple[WalkStep, ...]
    claims: tuple[tuple[TilePlaces, ...], tuple[TilePlaces, ...]]
    claims_at: int


class LeavingTile(NamedTuple):
    """A tile that is ready for stage number *at* of the stages with which it leaves."""

    ready_ps: int
    steps: tuple[WalkStep, ...]
    at: int


def together(first: WalkStep, second: WalkStep) -> WalkStep:
    """Two stages in one, for a block that serves other tiles meanwhile."""
    return first._replace(
        alone_ps=first.alone_ps + second.alone_ps,
        holds_ps=first.holds_ps + second.holds_ps,
        memory_ps=first.memory_ps + second.memory_ps,
        frees=first.frees + second.frees,
    )
