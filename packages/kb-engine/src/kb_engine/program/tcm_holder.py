"""TcmHolder: bytes of TCM that are freed with the last reference to a value that lies in them.

CPython counts references, so this moment depends on the kernel alone and is the same in every run. The collector of
reference cycles is different: the moment at which it runs depends on the rest of the process. So the collector frees no
bytes, and bytes that a cycle keeps are held until the program ends.
"""

from __future__ import annotations

from typing import Protocol

from kb_engine.memory.allocator import Lease
from kb_engine.timing.collector import COLLECTOR
from kb_messages import Matrix


class Releases(Protocol):
    """What gives bytes of TCM back: a Lease, or the slot of a message. `has_ended` says that nothing is held."""

    has_ended: bool

    def release(self, start: int) -> None:
        """Gives back the bytes at *start*."""


class HeldBytes:
    """The allocation of *lease* at `start`, which is freed with the last reference to this object."""

    __slots__ = ("_lease", "start")

    def __init__(self, lease: Lease, start: int) -> None:
        self._lease = lease
        self.start = start

    def __del__(self) -> None:
        if not (self._lease.has_ended or COLLECTOR.runs):
            self._lease.release(self.start)


class TcmHolder:
    """The allocation of *lease* at `matrix`. All values that lie in the bytes refer to this object.

    `line` is the kernel line that allocated the bytes. `freed` says whether they were freed.
    """

    __slots__ = ("_is_kept", "_lease", "freed", "line", "matrix")

    def __init__(self, lease: Releases, matrix: Matrix, line: str = "") -> None:
        self.matrix = matrix
        self.line = line
        self.freed = False
        self._lease = lease
        self._is_kept = False

    def free(self) -> None:
        """Frees the bytes now. The caller has checked that they were not freed before."""
        self.freed = True
        self._lease.release(self.matrix.address)

    def keep(self) -> None:
        """Keeps the bytes until the program ends."""
        self._is_kept = True

    def __del__(self) -> None:
        if not (self.freed or self._is_kept or self._lease.has_ended or COLLECTOR.runs):
            self._lease.release(self.matrix.address)
