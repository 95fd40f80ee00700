"""Indices that wrapped: products of integers beyond their type, by which a kernel indexes a tensor."""

from __future__ import annotations

from msgspec import Struct

from kb_engine.observe.observer import Observer


class WrappedIndex(Struct, frozen=True, kw_only=True):
    """A kernel line that indexed, `count` times, by integers that follow from some that wrapped at `wrapped_at`.

    `pes` are the PEs on which programs did, in the order of their first time.
    """

    line: str
    wrapped_at: str
    count: int
    pes: tuple[str, ...]

    def __str__(self) -> str:
        where = self.pes[0] if len(self.pes) == 1 else f"{self.pes[0]} to {self.pes[-1]}"
        times = f", {self.count} times" if self.count > 1 else ""
        return (
            f"wrapped index: {self.line} indexes by integers that wrapped at {self.wrapped_at}, on {where}{times}; "
            'compute them in i64: x.to("i64")'
        )


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
