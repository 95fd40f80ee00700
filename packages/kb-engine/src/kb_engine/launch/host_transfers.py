"""HostTransfers: reads, writes and copies of memory by the host, and HostChannels, which they share.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kb_engine.block.control_roles import HostPort
from kb_engine.fabric.fabric import Fabric
from kb_engine.timing.clock import Clock
from kb_messages import Matrix, Rectangle


class Leg(NamedTuple):
    """A read or a write, by the function `move` of the fabric, of `rectangle` over `path`."""

    move: Callable[..., None]
    path: Any
    rectangle: Rectangle


class HostChannels:
    """The channels of the host's port. Each has one piece at a time, and pieces take channels in the order of `put`."""

    def __init__(self, clock: Clock, fabric: Fabric, port: HostPort[Any]) -> None:
        self.clock = clock
        self._fabric = fabric
        self._port = port
        self._n_free = port.channels
        self._waiting: deque[tuple[HostTransfers, int]] = deque()

    def leg(self, matrix: Matrix, write: bool) -> Leg:
        """The leg that moves *matrix*. Raises TopologyError when no links lead to its memory, or none back."""
        path = self._fabric.path(self._port.node_id, matrix.owner)
        return Leg(self._fabric.write if write else self._fabric.read, path, matrix.rectangle)

    def put(self, transfers: HostTransfers, n_pieces: int) -> None:
        """Starts the *n_pieces* pieces of *transfers*, each when a channel is free."""
        self._waiting.extend((transfers, number) for number in range(n_pieces))
        self._fill()

    def free(self) -> None:
        """Notes that a piece has ended, and starts the next one."""
        self._n_free += 1
        self._fill()

    def _fill(self) -> None:
        while self._n_free and self._waiting:
            self._n_free -= 1
            transfers, number = self._waiting.popleft()
            transfers.begin(number)


class HostTransfers:
    """Moves *pieces* over *channels*, and calls `done()` when all are moved. The legs of a piece follow each other.

    A piece of a read or a write has one leg. A piece of a copy is read whole and then written.
    """

    def __init__(self, channels: HostChannels, pieces: Sequence[Sequence[Leg]], done: Callable[[], None]) -> None:
        self._channels = channels
        self._clock = channels.clock
        self._pieces = pieces
        self._done = done
        self._left = len(pieces)
        self._started = [0] * len(pieces)
        self._ended = [0] * len(pieces)

    @property
    def times_ps(self) -> list[tuple[int, int]]:
        """The start and the end of each piece."""
        return list(zip(self._started, self._ended, strict=True))

    def start(self, _: object = None) -> None:
        """Starts the pieces, as channels are free."""
        self._channels.put(self, len(self._pieces))

    def begin(self, number: int) -> None:
        """Starts piece *number*, for which a channel is free."""
        self._started[number] = self._clock.now_ps
        self._move((number, 0))

    def _move(self, at: tuple[int, int]) -> None:
        number, leg = at
        move, path, rectangle = self._pieces[number][leg]
        move(path, rectangle, self._clock.now_ps, self._finish, at)

    def _finish(self, at: tuple[int, int]) -> None:
        number, leg = at
        if leg + 1 < len(self._pieces[number]):
            self._move((number, leg + 1))
            return
        self._ended[number] = self._clock.now_ps
        self._left -= 1
        self._channels.free()
        if not self._left:
            self._done()
