"""`--sanitize`: accesses that hardware could do in another order, TCM that kernels leak, and wrapped indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from kb_cli.run.base.result import LaunchTimes, Sanitized
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec import MemoryStore, OpLog, sanitize
from kb_engine.program import LeakWatch, WrapWatch

Windows = Sequence[tuple[int, int]]
"""Start and end of each launch, in picoseconds."""


class SanitizerWatch(NamedTuple):
    """The observers of events that a log does not show."""

    leaks: LeakWatch
    wraps: WrapWatch


def sanitize_run(log: OpLog, memory: MemoryStore, launches: Windows, watch: SanitizerWatch) -> Sanitized:
    """Searches a run that has just ended. *memory* names the chip's memories, and *watch* observed the run."""
    found = sanitize(log, launches, _names(memory))
    return Sanitized(findings=found, leaks=watch.leaks.leaks, wraps=watch.wraps.wraps or UNSET)


def sanitize_stored(log: OpLog, memory: MemoryStore, launches: Sequence[LaunchTimes]) -> Sanitized:
    """Searches the log of a run folder, whose run.json has *launches*."""
    windows = [(round(each.start_ns * PS_PER_NS), round(each.end_ns * PS_PER_NS)) for each in launches]
    return Sanitized(findings=sanitize(log, windows, _names(memory)))


def found_something(sanitized: Sanitized | UnsetType | None) -> bool:
    """Whether a run was searched, and something was found."""
    return isinstance(sanitized, Sanitized) and bool(sanitized.texts)


def _names(memory: MemoryStore) -> dict[int, str]:
    return {owner: label for owner, _, label in memory.regions}
