"""`--sanitize`: accesses that hardware could do in another order, TCM that kernels leak, and wrapped indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from kb_cli.run.base.result import LaunchTimes, Sanitized
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec import MemoryStore, OpLog
from kb_dataexec.analysis import ElementNames, Numbering, RaceReport, RaceSearch, search, unnamed
from kb_engine import LaunchResult
from kb_engine.program import LeakWatch, WrapWatch

Windows = Sequence[tuple[int, int]]
"""Start and end of each launch, in picoseconds."""
Naming: TypeAlias = tuple[ElementNames, Sequence[Numbering]]
"""A function that finds the element with a byte, and the numbering of the programs of each launch."""


class SanitizerWatch(NamedTuple):
    """The observers of events that a log does not show."""

    leaks: LeakWatch
    wraps: WrapWatch


def sanitize_run(
    log: OpLog, memory: MemoryStore, launches: Windows, watch: SanitizerWatch, naming: Naming = (unnamed, ())
) -> Sanitized:
    """Searches a run that has just ended. *memory* names the chip's memories, and *watch* observed the run."""
    found = search(log, launches, _names(memory), *naming)
    return Sanitized(
        findings=found.findings, leaks=watch.leaks.leaks, wraps=watch.wraps.wraps or UNSET, notes=found.notes or UNSET
    )


def sanitize_stored(log: OpLog, memory: MemoryStore, launches: Sequence[LaunchTimes], names: ElementNames) -> Sanitized:
    """Searches the log of a run folder, whose run.json has *launches*. *names* finds elements by their bytes."""
    windows = [(round(each.start_ns * PS_PER_NS), round(each.end_ns * PS_PER_NS)) for each in launches]
    found = search(log, windows, _names(memory), names, grids=[each.grid or () for each in launches])
    return Sanitized(findings=found.findings, notes=found.notes or UNSET)


def numbering_of(launch: LaunchResult) -> Numbering:
    """Returns the sizes of the grid of *launch*; without a grid, the PEs in the order of their programs."""
    return launch.grid or tuple(launch.pe_start_ps)


def races_of(search: RaceSearch, log: OpLog | None, memory: MemoryStore, naming: Naming) -> RaceReport:
    """Returns the races in a log whose chunks *search* has seen. *log* has all rows, or is None."""
    names, grids = naming
    return search.report(log, names, _names(memory), grids)


def found_something(searched: Sanitized | RaceReport | UnsetType | None) -> bool:
    """Whether a run was searched, and something was found."""
    return isinstance(searched, Sanitized | RaceReport) and bool(searched.texts)


def _names(memory: MemoryStore) -> dict[int, str]:
    return {owner: label for owner, _, label in memory.regions}
