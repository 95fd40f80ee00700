"""WatchedLease: a program's share of TCM that notifies observers of each allocation and release."""

from __future__ import annotations

from kb_engine.memory.allocator import Allocator, Lease
from kb_engine.observe.observer import Listeners


class WatchedLease(Lease):
    """A Lease for the program on *pe_id*. Only a run with an observer of allocations has one."""

    def __init__(self, allocator: Allocator, pe_id: str, listeners: Listeners) -> None:
        super().__init__(allocator)
        self._pe_id = pe_id
        self._listeners = listeners

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """Takes *nbytes* free bytes, notifies observers, and returns the address. Raises OutOfMemoryError."""
        start = super().allocate(nbytes, holder)
        if self._listeners.on_allocate is not None:
            self._listeners.on_allocate(self._pe_id, start, nbytes, holder)
        return start

    def take(self, start: int, nbytes: int, holder: str = "") -> int:
        """Allocates the free *nbytes* bytes at *start*, and notifies observers."""
        super().take(start, nbytes, holder)
        if self._listeners.on_allocate is not None:
            self._listeners.on_allocate(self._pe_id, start, nbytes, holder)
        return start

    def release(self, start: int) -> None:
        """Gives back the range at *start*, and notifies observers of the release."""
        super().release(start)
        if self._listeners.on_free is not None:
            self._listeners.on_free(self._pe_id, start)

    def end(self) -> None:
        """Gives back all ranges, and notifies observers of the end of the program."""
        if self._listeners.on_program_end is not None:
            self._listeners.on_program_end(self._pe_id, self.held)
        super().end()
