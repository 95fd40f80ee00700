"""`--sanitize`: what hardware could get wrong in a run, from its log, and the TCM that its kernels leak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec import MemoryStore, OpLog, sanitize
from kb_dataexec.analysis import Finding
from kb_engine.program import Leak, LeakWatch


class Sanitized(Struct, frozen=True, kw_only=True):
    """What the sanitizers found. `leaks` is missing where only the log was looked at: it does not tell."""

    findings: list[Finding]
    leaks: list[Leak] | UnsetType = UNSET

    @property
    def texts(self) -> list[str]:
        """A sentence for each thing found."""
        return [*map(str, self.findings), *map(str, self.leaks or ())]


Windows = Sequence[tuple[int, int]]
"""Start and end of each launch, in picoseconds."""


def sanitize_run(log: OpLog, memory: MemoryStore, launches: Windows, watch: LeakWatch) -> Sanitized:
    """Look at a run that has just ended; *memory* knows the names of the chip's memories."""
    return Sanitized(findings=sanitize(log, launches, _names(memory)), leaks=watch.leaks)


def sanitize_stored(log: OpLog, memory: MemoryStore, run: dict[str, Any]) -> Sanitized:
    """Look at the log and the memory of a run folder, whose run.json is *run*."""
    launches = run["results"]["launches"]
    windows = [(round(each["start_ns"] * PS_PER_NS), round(each["end_ns"] * PS_PER_NS)) for each in launches]
    return Sanitized(findings=sanitize(log, windows, _names(memory)))


def found_something(sanitized: Sanitized | UnsetType | None) -> bool:
    """Whether a run was looked at and is not clean."""
    return isinstance(sanitized, Sanitized) and bool(sanitized.texts)


def _names(memory: MemoryStore) -> dict[int, str]:
    return {owner: label for owner, _, label in memory.regions}
