"""Mistakes in kernels that observers find: leaks of TCM, and indices that wrapped.

TCM is freed with the last reference to a value. So a leak is a list outside the kernel, or a cycle of references, that
keeps values of a loop when the kernel has returned. An index wraps when a product of integers does not fit their type.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType, FrameType

from msgspec import Struct

from kb_engine.observe.observer import Observer
from kb_engine.program.author.kernel_lines import is_own


class Leak(Struct, frozen=True, kw_only=True):
    """A leak: a kernel line that allocated TCM again and again, and whose values are still referred to at the end.

    The program that held most at its end held `count` allocations of `nbytes` bytes in all. `programs` is the number of
    programs that held such allocations, and `pes` are their PEs, in the order in which the programs ended.
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
            f"({self.nbytes} bytes) until {ends}, on {where}; keep no reference to a value outside the kernel or in a "
            "cycle"
        )


class WrappedIndex(Struct, frozen=True, kw_only=True):
    """A kernel line that indexed, `count` times, by integers computed from integers that wrapped at `wrapped_at`.

    `pes` are the PEs of the programs, in the order in which they first did.
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


_Site = tuple[tuple[CodeType, int], ...]
"""The calls in the user's code that led to an allocation, innermost first. Each turn of a loop has the same calls."""


class LeakWatch(Observer):
    """Finds leaks in the programs of a run. Memory that a line allocates once, as before a loop, is no leak."""

    def __init__(self) -> None:
        self._live: dict[str, dict[int, tuple[_Site, str, int]]] = {}
        self._held: dict[str, list[tuple[str, int, int]]] = {}

    @property
    def leaks(self) -> list[Leak]:
        """The leaks found so far, in the order in which they were found."""
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

    def on_allocate(self, pe_id: str, address: int, nbytes: int, line: str) -> None:
        """Notes the calls in the kernel that led to the allocation."""
        self._live.setdefault(pe_id, {})[address] = _site(), line, nbytes

    def on_free(self, pe_id: str, address: int) -> None:
        """Forgets the allocation."""
        del self._live[pe_id][address]

    def on_program_end(self, pe_id: str, held: Sequence[int]) -> None:
        """Finds leaks among the allocations that are still held."""
        live = self._live.get(pe_id, {})
        by_site: dict[_Site, list[tuple[str, int]]] = {}
        for site, line, nbytes in [live.pop(address) for address in held]:
            by_site.setdefault(site, []).append((line, nbytes))
        leaked: dict[str, list[int]] = {}
        for allocations in by_site.values():
            if len(allocations) > 1:
                leaked.setdefault(allocations[0][0], []).extend(nbytes for _, nbytes in allocations)
        for line, sizes in leaked.items():
            self._held.setdefault(line, []).append((pe_id, len(sizes), sum(sizes)))


def _site() -> _Site:
    calls: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(calls)


class WrapWatch(Observer):
    """Finds indices that wrapped in the programs of a run."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[str]] = {}

    @property
    def wraps(self) -> list[WrappedIndex]:
        """The lines that indexed by wrapped integers, in the order in which they first did."""
        return [
            WrappedIndex(line=line, wrapped_at=wrapped_at, count=len(pes), pes=tuple(dict.fromkeys(pes)))
            for (line, wrapped_at), pes in self._found.items()
        ]

    def on_wrapped_index(self, pe_id: str, line: str, wrapped_at: str) -> None:
        """Notes an index at *line* that was computed from integers that wrapped at *wrapped_at*."""
        self._found.setdefault((line, wrapped_at), []).append(pe_id)
