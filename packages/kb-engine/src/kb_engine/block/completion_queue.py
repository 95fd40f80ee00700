"""The completion queue of a PE: PE_SCHEDULER writes it, PE_CPU reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kb_messages import CompletionRecord


class CompletionQueue:
    """Records of finished commands, in the order in which they finished, until the program on the PE takes them.

    The queue has no bound of its own: it holds at most one record for each command whose completion nobody has taken.
    """

    def __init__(self) -> None:
        self._records: deque[CompletionRecord] = deque()
        self._reader: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._records)

    def read_by(self, reader: Callable[[], None]) -> None:
        """Call *reader* after each record that enters from now on. It takes the records, and replaces any other."""
        self._reader = reader

    def publish(self, record: CompletionRecord) -> None:
        """Add *record*. Only the scheduler calls this."""
        self._records.append(record)
        if self._reader is not None:
            self._reader()

    def take(self) -> CompletionRecord | None:
        """Remove and return the oldest record, or None."""
        return self._records.popleft() if self._records else None
