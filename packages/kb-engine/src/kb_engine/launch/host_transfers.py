"""HostTransfers: reads or writes of tensors by the host, over the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kb_engine.block.control_roles import HostPort
from kb_engine.fabric.fabric import Fabric
from kb_engine.timing.clock import Clock
from kb_messages import Matrix


class HostTransfers:
    """Reads or writes of memory, as many at once as the host has channels. The next one starts when one ends."""

    def __init__(
        self, clock: Clock, fabric: Fabric, port: HostPort[Any], matrices: Sequence[Matrix], write: bool
    ) -> None:
        """Raises TopologyError when no links lead to the memory of a matrix, or none back."""
        self._clock = clock
        self._move = fabric.write if write else fabric.read
        self._matrices = matrices
        self._paths = [fabric.path(port.node_id, matrix.owner) for matrix in matrices]
        self._channels = port.channels
        self._next = 0
        self._left = len(matrices)
        self._started = [0] * len(matrices)
        self._ended = [0] * len(matrices)

    @property
    def times_ps(self) -> list[tuple[int, int]]:
        """The start and the end of each transfer."""
        return list(zip(self._started, self._ended, strict=True))

    def start(self, _: object) -> None:
        """Start a transfer on each channel now. The clock stops when the last transfer ends."""
        for _channel in range(min(self._channels, self._left)):
            self._start_next()

    def _start_next(self) -> None:
        number, self._next = self._next, self._next + 1
        matrix, now = self._matrices[number], self._clock.now_ps
        self._started[number] = now
        self._move(self._paths[number], matrix.rectangle, now, self._finish, number)

    def _finish(self, number: int) -> None:
        self._ended[number] = self._clock.now_ps
        self._left -= 1
        if self._next < len(self._matrices):
            self._start_next()
        elif not self._left:
            self._clock.stop()
