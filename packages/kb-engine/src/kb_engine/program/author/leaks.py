"""Leaks of TCM: values that a loop makes and something keeps when the kernel has returned.

TCM goes back with the last reference to a value. So a leak is a list outside the kernel, or a cycle of references. An
observer finds leaks at the end of each program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType, FrameType

from kb_engine.observe.observer import Observer
from kb_engine.program.author.kernel_findings import Leak
from kb_engine.program.author.kernel_lines import is_own

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
        """Note where in the kernel the allocation was made."""
        self._live.setdefault(pe_id, {})[address] = _site(), line, nbytes

    def on_free(self, pe_id: str, address: int) -> None:
        """Forget the allocation."""
        del self._live[pe_id][address]

    def on_program_end(self, pe_id: str, held: Sequence[int]) -> None:
        """Look at the allocations that are still held."""
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
