"""Indices that wrapped: products of integers beyond their type, by which a kernel indexes a tensor."""

from __future__ import annotations

from kb_engine.observe.observer import Observer
from kb_engine.program.author.kernel_findings import WrappedIndex


class WrapWatch(Observer):
    """Finds indices that wrapped."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[str]] = {}

    @property
    def wraps(self) -> list[WrappedIndex]:
        """The lines that indexed so, in the order of their first time."""
        return [
            WrappedIndex(line=line, wrapped_at=wrapped_at, count=len(pes), pes=tuple(dict.fromkeys(pes)))
            for (line, wrapped_at), pes in self._found.items()
        ]

    def on_wrapped_index(self, pe_id: str, line: str, wrapped_at: str) -> None:
        """As `Observer.on_wrapped_index`."""
        self._found.setdefault((line, wrapped_at), []).append(pe_id)
