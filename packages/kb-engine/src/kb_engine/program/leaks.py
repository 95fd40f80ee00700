"""Leaks of TCM: loops that allocate and never free, found at the end of each program by whoever asks for it."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from msgspec import Struct

from kb_engine.memory.allocator import Lease
from kb_engine.program.kernel_lines import is_own
from kb_engine.program.pe import ProcessingElement

_Site = tuple[tuple[CodeType, int], ...]
"""The calls in the user's code that led to an allocation, innermost first. A loop comes by the same ones again."""


class Leak(Struct, frozen=True, kw_only=True):
    """A kernel line that allocated TCM again and again and held on to it when its program ended.

    `count` allocations of `nbytes` bytes in all, in the program that held most; `programs` counts those that held
    some, and `pes` are the PEs that they ran on, in the order in which they ended.
    """

    line: str
    count: int
    nbytes: int
    programs: int
    pes: tuple[str, ...]

    def __str__(self) -> str:
        where = self.pes[0] if len(self.pes) == 1 else f"{self.pes[0]} to {self.pes[-1]}"
        up_to, ends = ("up to ", f"each of {self.programs} programs ends") if self.programs > 1 else ("", "it ends")
        return (
            f"leak of TCM: {self.line} allocates in a loop, and its program holds {up_to}{self.count} of these "
            f"({self.nbytes} bytes) until {ends}, on {where}; tl.free each when it is no longer needed"
        )


class LeakWatch:
    """Watches the leases of an engine's programs. What a line holds once, as before a loop, is no leak."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[str, int, int]]] = {}

    def lease(self, pe: ProcessingElement) -> Lease:
        """A lease of *pe*'s TCM that is looked at when its program ends."""
        return _WatchedLease(pe, self._held)

    @property
    def leaks(self) -> list[Leak]:
        """What was found so far, in the order in which it was."""
        return [
            Leak(
                line=line,
                count=max(count for _, count, _ in held),
                nbytes=max(nbytes for *_, nbytes in held),
                programs=len(held),
                pes=tuple(dict.fromkeys(pe for pe, *_ in held)),
            )
            for line, held in self._held.items()
        ]


class _WatchedLease(Lease):
    """Knows where in the kernel each allocation was made."""

    def __init__(self, pe: ProcessingElement, held: dict[str, list[tuple[str, int, int]]]) -> None:
        super().__init__(pe.tcm)
        self._pe_id = pe.pe_id
        self._held = held
        self._live: dict[int, tuple[_Site, str, int]] = {}

    def allocate(self, nbytes: int, holder: str = "") -> int:
        """As Lease's."""
        start = super().allocate(nbytes, holder)
        self._live[start] = _site(), holder, nbytes
        return start

    def release(self, start: int) -> None:
        """As Lease's."""
        super().release(start)
        del self._live[start]

    def end(self) -> None:
        """As Lease's, after a look at what is still held."""
        by_site: dict[_Site, list[tuple[str, int]]] = {}
        for site, line, nbytes in self._live.values():
            by_site.setdefault(site, []).append((line, nbytes))
        leaked: dict[str, list[int]] = {}
        for allocations in by_site.values():
            if len(allocations) > 1:
                leaked.setdefault(allocations[0][0], []).extend(nbytes for _, nbytes in allocations)
        for line, sizes in leaked.items():
            self._held.setdefault(line, []).append((self._pe_id, len(sizes), sum(sizes)))
        self._live.clear()
        super().end()


def _site() -> _Site:
    calls: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(calls)
