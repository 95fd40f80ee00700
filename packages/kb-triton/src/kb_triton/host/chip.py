"""RunningChip: an engine that stays built over launches, and is built anew after a launch that failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kb_dataexec import MemoryLogWriter, MemoryStore, OpLog
from kb_engine import Engine, Host
from kb_engine.observe import Observer
from kb_topology import Topology

_MOST_REPEATED_LOADS: Final = 1 << 10
"""Source: assumed. Each PE that polls does so as often before the launch counts as stuck: some seconds."""


class RunningChip:
    """The chip of *topology*, with an op log for each launch or without. *watched* gives the observers of an engine.

    *templates* is as for `Engine`.
    """

    def __init__(
        self,
        topology: Topology,
        has_log: bool,
        watched: Callable[[], Sequence[Observer]] = tuple,
        templates: bool = True,
    ) -> None:
        self.topology = topology
        self._templates = templates
        self._has_log = has_log
        self._watched = watched
        self._engine: Engine | None = None

    def new_host(self, root: Path) -> Host:
        """A host whose memories are empty, for one launch. Kernel lines are relative to *root*."""
        if self._engine is not None and not self._engine.clock.is_broken:
            self._engine.rebase(MemoryStore(self._engine.memory.store.regions), self._writer())
        return Host(self.engine(), root)

    def standing(self) -> list[str]:
        """Where the programs of the last launch stand, as lines of text, also when an interrupt has stopped it."""
        return self._engine.standing() if self._engine is not None else []

    def log_so_far(self) -> OpLog | None:
        """The op log of the last launch up to here, if there is one. Nothing may be simulated before the next one."""
        if self._engine is None or not self._has_log:
            return None
        self._engine.flush_log()
        log = self._engine.close_log()
        return log if isinstance(log, OpLog) else None

    def engine(self) -> Engine:
        """The engine, which is built if there is none that works."""
        if self._engine is None or self._engine.clock.is_broken:
            self._engine = Engine(
                self.topology,
                self._writer(),
                self._watched(),
                most_repeated_loads=_MOST_REPEATED_LOADS,
                templates=self._templates,
            )
        return self._engine

    def _writer(self) -> MemoryLogWriter | None:
        return MemoryLogWriter() if self._has_log else None
